/** Files that were dropped or chosen: what they are, before anything is replaced. */
import type { Engine } from '../engine/engine';
import { filledIn } from '../model/edit';
import { type Model, type Placement, placementFromFile } from '../model/model';
import { bytes, count, counted } from '../model/numbers';

/** What opening would do. */
export interface Offer {
  title: string;
  facts: string[];
  notes: string[];
  /** Text of a model to open; `null`: a placement of the open one. */
  text: string | null;
  place: ((model: Model) => Placement) | null;
  placement: Placement | null;
}

interface NamedText {
  name: string;
  text: string;
}

/**
 * Looks at files without changing anything.
 *
 * @throws Error that names the file and the line or field
 */
export function look(engine: Engine, open: Model | null, files: readonly NamedText[]): Offer {
  const [first] = files;
  const names = files.map(({ name }) => name).join(', ');
  if (first && files.length === 1 && first.name.toLowerCase().endsWith('.json')) {
    const value = parsed(first);
    const isObject = typeof value === 'object' && value !== null;
    if (isObject && 'model' in value && 'placement' in value) {
      const { model: text } = engine.import([{ name: first.name, text: JSON.stringify(value.model) }]);
      if (text === null) throw new Error(`${first.name}: this is no model with its placement`);
      const place = (model: Model) => placementFromFile(model, value.placement);
      named(first.name, () => place(filledIn(JSON.parse(text) as Model)));
      return { ...modelOffer(first.name, text, []), place };
    }
    if (isObject && !('topology' in value) && 'segments' in value && 'processes' in value) {
      if (!open) throw new Error(`${first.name}: this is a placement; open its model first`);
      const placement = named(first.name, () => placementFromFile(open, value));
      return { title: first.name, facts: [`A placement of ${open.id ?? 'the open model'}`], notes: [], text: null, place: null, placement };
    }
  }
  const imported = engine.import(files);
  if (imported.model !== null) return modelOffer(names, imported.model, imported.notes);
  return { title: names, facts: [`A placement of ${open?.id ?? 'the open model'}`], notes: imported.notes, text: null, place: null, placement: imported.placement };
}

function named<T>(name: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw new Error(`${name}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** JSON, or an error with the line that it broke on. */
function parsed({ name, text }: NamedText): object | null {
  try {
    return JSON.parse(text) as object | null;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const offset = /position (\d+)/.exec(message)?.[1];
    const line = offset === undefined ? null : text.slice(0, Number(offset)).split('\n').length;
    throw new Error(`${name}${line === null || /line \d/.test(message) ? '' : `, line ${line}`}: this is no JSON: ${message}`);
  }
}

function modelOffer(title: string, text: string, notes: string[]): Offer {
  return { title, facts: factsOf(JSON.parse(text) as Model), notes, text, place: null, placement: null };
}

/** What a model is, in a few lines. */
function factsOf(file: Model): string[] {
  const model = filledIn(file);
  const { topology } = model;
  const torus = (dims: number[]) => (dims.length === 1 ? 'a ring' : `a torus of ${dims.join(' × ')}`);
  const shape = topology.kind === 'torus' ? torus(topology.dims) : `a tree of switches, ${topology.radices.join(' × ')}`;
  const memory = model.segments.reduce((sum, segment) => sum + segment.bytes, 0);
  return [
    `Machine: ${shape}, ${counted(topology.nodes, 'node', 'nodes')}`,
    `${counted(model.processes.length, 'process', 'processes')}, ${counted(model.segments.length, 'segment', 'segments')} (${bytes(memory)})`,
    `${counted(model.accesses.length, 'entry', 'entries')} of accesses, ${count((model.messages ?? []).length)} of messages`,
  ];
}
