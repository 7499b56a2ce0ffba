/**
 * The model and the placement as the page holds them.
 *
 * A model is its file (format version 1), never changed in place: an edit makes a new object that shares what it did
 * not change, so that undo is keeping the old one. A placement has indices instead of ids.
 */

export type Op = 'read' | 'write';
export type Objective = 'sum' | 'makespan' | 'max_link';
export type ItemKind = 'process' | 'segment';

export interface Torus {
  kind: 'torus';
  nodes: number;
  dims: number[];
  directed?: boolean;
}
export interface FatTree {
  kind: 'fat_tree';
  nodes: number;
  radices: number[];
}
export type Topology = Torus | FatTree;

export interface Process {
  id: string;
  pin?: number;
}
export interface Segment {
  id: string;
  bytes: number;
  pin?: number;
  replicable?: boolean;
}
export interface Access {
  process: string;
  segment: string;
  op: Op;
  count: number;
  size: number;
}
export interface Message {
  from: string;
  to: string;
  count: number;
  size: number;
}
export interface CostModel {
  kind: 'scipos' | 'matrix' | 'hop_bytes';
  [field: string]: unknown;
}

export interface Model {
  id?: string;
  version?: number;
  topology: Topology;
  cost_model: CostModel;
  processes: Process[];
  segments: Segment[];
  accesses: Access[];
  messages?: Message[];
  /** Limits per node; `null` where there is none. */
  process_slots?: (number | null)[];
  segment_slots?: (number | null)[];
  memory_bytes?: (number | null)[];
  objective?: Objective;
}

/** Node of each process, and the nodes of the copies of each segment, by index. */
export interface Placement {
  readonly processes: readonly number[];
  readonly segments: readonly (readonly number[])[];
}

/** A process or a segment, by its index. */
export interface Item {
  readonly kind: ItemKind;
  readonly index: number;
}

export const sameItem = (a: Item | null, b: Item | null): boolean =>
  a === b || (a !== null && b !== null && a.kind === b.kind && a.index === b.index);

export const itemKey = (item: Item): string => `${item.kind[0]}${item.index}`;

export const itemId = (model: Model, item: Item): string =>
  (item.kind === 'process' ? model.processes[item.index] : model.segments[item.index])?.id ?? '?';

export const pinOf = (model: Model, item: Item): number | undefined =>
  (item.kind === 'process' ? model.processes[item.index] : model.segments[item.index])?.pin;

/** The node of a process, or the first node of a segment. */
export const nodeOf = (placement: Placement, item: Item): number =>
  (item.kind === 'process' ? placement.processes[item.index] : placement.segments[item.index]?.[0]) ?? 0;

/** Nodes as people read them: `3`, or `1 + 3` for copies. */
export const nodesText = (placement: Placement, item: Item): string =>
  item.kind === 'process'
    ? String(placement.processes[item.index] ?? 0)
    : (placement.segments[item.index] ?? []).join(' + ');

/** The placement with one item on another node; a segment keeps no other copy. */
export function moved(placement: Placement, item: Item, node: number): Placement {
  if (item.kind === 'process') {
    const processes = placement.processes.slice();
    processes[item.index] = node;
    return { processes, segments: placement.segments };
  }
  const segments = placement.segments.slice();
  segments[item.index] = [node];
  return { processes: placement.processes, segments };
}

/** The placement with another set of copies of one segment. */
export function withCopies(placement: Placement, segment: number, nodes: readonly number[]): Placement {
  const segments = placement.segments.slice();
  segments[segment] = [...nodes].sort((a, b) => a - b);
  return { processes: placement.processes, segments };
}

/**
 * Where everything stands before anybody has decided: pins hold, everything else is dealt out to the nodes in turn,
 * passing over nodes whose slots or memory are used up.
 */
export function dealtOut(model: Model): Placement {
  const nodes = model.topology.nodes;
  const limit = (limits: (number | null)[] | undefined) => Array.from({ length: nodes }, (_, node) => limits?.[node] ?? Infinity);
  const processSlots = limit(model.process_slots);
  const segmentSlots = limit(model.segment_slots);
  const memory = limit(model.memory_bytes);
  const take = (limits: number[], node: number, amount: number) => (limits[node] = (limits[node] ?? 0) - amount);
  for (const { pin } of model.processes) if (pin !== undefined) take(processSlots, pin, 1);
  for (const { pin, bytes } of model.segments) {
    if (pin === undefined) continue;
    take(segmentSlots, pin, 1);
    take(memory, pin, bytes);
  }
  const deal = (turn: number, fits: (node: number) => boolean) => {
    for (let step = 0; step < nodes; step++) if (fits((turn + step) % nodes)) return (turn + step) % nodes;
    return turn % nodes;
  };
  const processes = model.processes.map(({ pin }, index) => {
    if (pin !== undefined) return pin;
    const node = deal(index, (node) => (processSlots[node] ?? 0) >= 1);
    take(processSlots, node, 1);
    return node;
  });
  const segments = model.segments.map(({ pin, bytes }, index) => {
    if (pin !== undefined) return [pin];
    const node = deal(index, (node) => (segmentSlots[node] ?? 0) >= 1 && (memory[node] ?? 0) >= bytes);
    take(segmentSlots, node, 1);
    take(memory, node, bytes);
    return [node];
  });
  return { processes, segments };
}

export interface PlacementFile {
  processes: Record<string, number>;
  segments: Record<string, number | number[]>;
}

/** The placement as a file: ids instead of indices. */
export function placementFile(model: Model, placement: Placement): PlacementFile {
  // Not by assignment, to which an id may mean something: `__proto__`.
  const home = (nodes: readonly number[]) => (nodes.length === 1 ? (nodes[0] ?? 0) : nodes.slice());
  return {
    processes: Object.fromEntries(model.processes.map(({ id }, index) => [id, placement.processes[index] ?? 0])),
    segments: Object.fromEntries(model.segments.map(({ id }, index) => [id, home(placement.segments[index] ?? [0])])),
  };
}

/**
 * Reads a placement file for a model. Everything that the model has must be placed on a node that it has.
 *
 * @throws Error that names the field by its path
 */
export function placementFromFile(model: Model, file: unknown): Placement {
  const nodes = model.topology.nodes;
  const section = (name: 'processes' | 'segments'): Record<string, unknown> => {
    const value = (file as Record<string, unknown> | null)?.[name];
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw new Error(`${name}: expected an object that gives each id a node`);
    }
    return value as Record<string, unknown>;
  };
  const node = (value: unknown, path: string): number => {
    if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < nodes) return value;
    throw new Error(`${path}: expected a node from 0 to ${nodes - 1}, found ${JSON.stringify(value) ?? 'nothing'}`);
  };
  const processes = section('processes');
  const segments = section('segments');
  const known = (name: string, given: Record<string, unknown>, ids: Set<string>) => {
    for (const id of Object.keys(given)) if (!ids.has(id)) throw new Error(`${name}.${id}: the model has no such id`);
  };
  known('processes', processes, new Set(model.processes.map(({ id }) => id)));
  known('segments', segments, new Set(model.segments.map(({ id }) => id)));
  return {
    processes: model.processes.map(({ id }) => node(processes[id], `processes.${id}`)),
    segments: model.segments.map(({ id }) => {
      const value = segments[id];
      if (!Array.isArray(value)) return [node(value, `segments.${id}`)];
      if (value.length === 0) throw new Error(`segments.${id}: expected at least one node`);
      const copies = value.map((each, index) => node(each, `segments.${id}[${index}]`));
      return [...new Set(copies)].sort((a, b) => a - b);
    }),
  };
}

/** Items that are not where they are in the other placement. */
export function differences(a: Placement, b: Placement): Item[] {
  const items: Item[] = [];
  a.processes.forEach((node, index) => {
    if (node !== b.processes[index]) items.push({ kind: 'process', index });
  });
  a.segments.forEach((nodes, index) => {
    const other = b.segments[index];
    if (nodes === other) return;
    if (nodes.length !== other?.length || nodes.some((node, copy) => node !== other[copy])) {
      items.push({ kind: 'segment', index });
    }
  });
  return items;
}
