/**
 * The engine: the same Rust code that `deck place` runs, as WebAssembly. This file is its only door; what goes through
 * is described in `engine/src/boundary.rs`.
 */
import type { Item, Model, Objective, Placement } from '../model/model';
import type { Link } from '../scene/layout';

/** What one process pays, ns: by what it does, and by what the time is spent on. */
export interface ProcessCost {
  read: number;
  write: number;
  message: number;
  terms: ArrayLike<number>;
}

/** What time is spent on, in the order of `ProcessCost.terms`. */
export const TERMS = ['Memory', 'PCI bus', 'Bridge', 'Insertion', 'Wire', 'Contended wire'] as const;
/** Where among them wires stand: those of links that a process has for itself, and those that others use as well. */
export const WIRE = 4;
export const CONTENDED = 5;

export interface Evaluation {
  total: number;
  makespan: number;
  maxLink: number;
  processes: ProcessCost[];
  /** What the accesses to each segment cost, ns. */
  segments: Float64Array;
  /** Bytes on each directed link. */
  links: Float64Array;
}

/** Why an item may not be dropped on a node; 0: it may. */
export const OBSTACLES = ['', 'pinned', 'no process slot left', 'no segment slot left', 'memory full'] as const;

/** What everything would cost with one item on each of the nodes. */
export interface Trial {
  total: Float64Array;
  makespan: Float64Array;
  maxLink: Float64Array;
  obstacles: Float64Array;
  /** The process that would change places with the one that is tried; -1: none. */
  swaps: Float64Array;
}

export interface Contribution {
  process: number;
  segment: number | null;
  to: number | null;
  op: 'read' | 'write' | 'message';
  count: number;
  size: number;
  amount: number;
  local: boolean;
}
export interface Move {
  kind: 'process' | 'segment';
  index: number;
  from: number;
  to: number;
  /** The process that goes the other way. */
  swap: number | null;
  cost: number;
}
export interface Explanation {
  contributions: Contribution[];
  moves: Move[];
}

export interface SolveRequest {
  objective: Objective;
  seconds: number;
  seed: number;
}
export interface Incumbent {
  cost: number | null;
  bound: number | null;
  method: string;
  seconds: number;
  placement: Placement;
}
export interface Outcome {
  status: 'optimal' | 'feasible' | 'infeasible' | 'unknown';
  cost: number | null;
  bound: number | null;
  gap: number | null;
  method: string;
  seed: number;
  seconds: number;
  placement: Placement | null;
  reason: string | null;
}

/** What files of other tools gave: a model as text, or a placement of the open model. */
export interface Imported {
  format: string;
  notes: string[];
  model: string | null;
  placement: Placement | null;
}

/** A file that was not understood: where, and what was expected there. */
export class InputError extends Error {
  constructor(
    readonly place: string | number | null,
    message: string,
  ) {
    super(message);
  }
}

const OBJECTIVES: readonly Objective[] = ['sum', 'makespan', 'max_link'];

/** The value of an objective. */
export const costOf = (evaluation: Pick<Evaluation, 'total' | 'makespan' | 'maxLink'>, objective: Objective): number =>
  objective === 'sum' ? evaluation.total : objective === 'makespan' ? evaluation.makespan : evaluation.maxLink;

/** The values of an objective in a trial, by node. */
export const costsOf = (trial: Trial, objective: Objective): Float64Array =>
  objective === 'sum' ? trial.total : objective === 'makespan' ? trial.makespan : trial.maxLink;

export const unitOf = (objective: Objective): 'ns' | 'bytes' => (objective === 'max_link' ? 'bytes' : 'ns');

interface Exports {
  memory: WebAssembly.Memory;
  allocate(length: number): number;
  answer_address(): number;
  answer_length(): number;
  open(address: number, length: number): number;
  evaluate(address: number, length: number, shown: number): number;
  violations(): number;
  trial(address: number, length: number): number;
  follow(address: number, length: number, node: number): number;
  explain(objective: number, top: number): number;
  solve(address: number, length: number): number;
  import(address: number, length: number): number;
  export(address: number, length: number): number;
}

export class Engine {
  private report: (incumbent: Incumbent) => void = () => {};
  private exports!: Exports;

  private constructor() {}

  static async start(module: WebAssembly.Module): Promise<Engine> {
    const engine = new Engine();
    const page = {
      now_ms: () => performance.now(),
      report: (address: number, length: number) => engine.report(JSON.parse(engine.text(address, length)) as Incumbent),
    };
    const instance = await WebAssembly.instantiate(module, { page });
    engine.exports = instance.exports as unknown as Exports;
    return engine;
  }

  /**
   * Opens a model file.
   *
   * @throws InputError with the path of the field
   */
  open(text: string): { nodes: number; links: Link[] } {
    const input = new TextEncoder().encode(text);
    return JSON.parse(this.answer(this.exports.open(this.fill(input), input.length))) as { nodes: number; links: Link[] };
  }

  /** What a placement costs. One that is shown is what trials and explanations start from. */
  evaluate(placement: Placement, shown: boolean): Evaluation {
    const words = new Uint8Array(wordsOf(placement).buffer);
    const status = this.exports.evaluate(this.fill(words), words.length, shown ? 1 : 0);
    return evaluationOf(placement, this.numbers(status));
  }

  /** What the shown placement costs with items on another node; looks at these items only. */
  follow(model: Model, items: readonly { item: Item; from: number }[], node: number): Evaluation {
    const input = itemWords(items);
    return evaluationOf(model, this.numbers(this.exports.follow(this.fill(input), input.length, node)));
  }

  /** Limits and pins that the shown placement breaks, in words. */
  violations(): string[] {
    return JSON.parse(this.answer(this.exports.violations())) as string[];
  }

  /** Tries items of the shown placement together on every node; of a segment, the copy on `from`. */
  trial(items: readonly { item: Item; from: number }[]): Trial {
    const input = itemWords(items);
    const numbers = this.numbers(this.exports.trial(this.fill(input), input.length));
    const n = numbers.length / 5;
    const part = (index: number) => numbers.subarray(index * n, (index + 1) * n);
    return { total: part(0), makespan: part(1), maxLink: part(2), obstacles: part(3), swaps: part(4) };
  }

  /** What weighs most in the shown placement, and which single moves help. */
  explain(objective: Objective, top: number): Explanation {
    return JSON.parse(this.answer(this.exports.explain(OBJECTIVES.indexOf(objective), top))) as Explanation;
  }

  /**
   * Reads files of one format; what they do not tell is taken from the open model.
   *
   * @throws InputError with the file, the line or the path
   */
  import(files: readonly { name: string; text: string }[]): Imported {
    const input = new TextEncoder().encode(JSON.stringify({ files }));
    return JSON.parse(this.answer(this.exports.import(this.fill(input), input.length))) as Imported;
  }

  /**
   * The shown placement for another tool; the formats are those of `deck place export`.
   *
   * @throws InputError if the format cannot express it
   */
  export(format: string): string {
    const input = new TextEncoder().encode(format);
    return this.answer(this.exports.export(this.fill(input), input.length));
  }

  /** Searches; blocks until the end, so call it in a worker. */
  solve(request: SolveRequest, report: (incumbent: Incumbent) => void): Outcome {
    this.report = report;
    const input = new TextEncoder().encode(JSON.stringify(request));
    return JSON.parse(this.answer(this.exports.solve(this.fill(input), input.length))) as Outcome;
  }

  private fill(bytes: Uint8Array): number {
    const address = this.exports.allocate(bytes.length);
    new Uint8Array(this.exports.memory.buffer, address, bytes.length).set(bytes);
    return address;
  }

  private text(address: number, length: number): string {
    return new TextDecoder().decode(new Uint8Array(this.exports.memory.buffer, address, length));
  }

  private answer(status: number): string {
    const text = this.text(this.exports.answer_address(), this.exports.answer_length());
    if (status === 0) return text;
    const { place, message } = JSON.parse(text) as { place: string | number | null; message: string };
    throw new InputError(place, message);
  }

  private numbers(status: number): Float64Array {
    if (status !== 0) this.answer(status);
    const [address, length] = [this.exports.answer_address(), this.exports.answer_length()];
    return new Float64Array(this.exports.memory.buffer.slice(address, address + length));
  }
}

function itemWords(items: readonly { item: Item; from: number }[]): Uint8Array {
  const words = items.flatMap(({ item, from }) => [item.kind === 'process' ? 0 : 1, item.index, from]);
  return new Uint8Array(Uint32Array.from(words).buffer);
}

/** Numbers as `engine/src/numbers.rs` lists them. */
function evaluationOf(of: Model | Placement, numbers: Float64Array): Evaluation {
  const processes: ProcessCost[] = [];
  let at = 3;
  for (let index = 0; index < of.processes.length; index++, at += 9) {
    const [read = 0, write = 0, message = 0] = numbers.subarray(at, at + 3);
    processes.push({ read, write, message, terms: numbers.subarray(at + 3, at + 9) });
  }
  const segments = numbers.subarray(at, at + of.segments.length);
  const links = numbers.subarray(at + of.segments.length);
  const [total = 0, makespan = 0, maxLink = 0] = numbers;
  return { total, makespan, maxLink, processes, segments, links };
}

/** The node of each process, then for each segment the number of its copies and their nodes. */
function wordsOf({ processes, segments }: Placement): Uint32Array {
  let length = processes.length;
  for (const copies of segments) length += 1 + copies.length;
  const words = new Uint32Array(length);
  let at = 0;
  for (const node of processes) words[at++] = node;
  for (const copies of segments) {
    words[at++] = copies.length;
    for (const node of copies) words[at++] = node;
  }
  return words;
}
