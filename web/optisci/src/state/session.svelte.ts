/**
 * What the page is about: a model, the placement that is shown, and everything that was before.
 *
 * All changes go through `commit`, so every one of them can be undone: moves, pins, edits of the model, and what a search
 * has found. Models and placements are never changed in place; the history keeps the old ones.
 */
import type { Engine, Evaluation, Trial } from '../engine/engine';
import { costOf, costsOf, OBSTACLES, unitOf } from '../engine/engine';
import { filledIn } from '../model/edit';
import { dealtOut, differences, type Item, itemId, itemKey, type Model, type Objective, type Placement } from '../model/model';
import { amount, change } from '../model/numbers';
import { relationsOf } from '../scene/arrows';
import { layout, type Link } from '../scene/layout';
import { pack } from '../scene/packing';

export type View = 'machine' | 'matrix' | 'compare';

/** An item in the hand, and the node that it, or its copy, left. */
export interface Taken {
  readonly item: Item;
  readonly from: number;
}
export interface Drag {
  taken: readonly Taken[];
  trial: Trial;
  /** The allowed node where the objective is least. */
  best: number;
  target: number | null;
  /** Of the target; `null` if there is none or nothing may be dropped there. */
  evaluation: Evaluation | null;
}
/** A placement that was put aside to be compared. */
export interface Kept {
  name: string;
  placement: Placement;
  evaluation: Evaluation;
}
interface State {
  model: Model;
  placement: Placement;
}
interface Step extends State {
  label: string;
}

const NOTHING: readonly Taken[] = [];
const KEPT_NAMES = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';

export class Session {
  model = $state.raw<Model>() as Model;
  placement = $state.raw<Placement>() as Placement;
  evaluation = $state.raw<Evaluation>() as Evaluation;
  violations = $state.raw<string[]>([]);
  links = $state.raw<Link[]>([]);
  objective = $state<Objective>('sum');
  selection = $state.raw<readonly Item[]>([]);
  focused = $state.raw<Item | null>(null);
  drag = $state.raw<Drag | null>(null);
  /** A placement that is shown without being taken: what a search has found so far, or a kept one. */
  preview = $state.raw<{ placement: Placement; evaluation: Evaluation } | null>(null);
  kept = $state.raw<readonly Kept[]>([]);
  view = $state<View>('machine');
  /** What a screen reader is told. */
  said = $state('');
  /** Ends of the colour scales. They stay where they are while things are moved. */
  linkScale = $state(0);
  segmentScale = $state(0);
  /** Counts models that were opened: what must start anew does. */
  opened = $state(0);
  private past = $state.raw<readonly Step[]>([]);
  private future = $state.raw<readonly Step[]>([]);
  private written: { model: Model; text: string } | null = null;

  readonly taken = $derived(this.drag?.taken ?? NOTHING);
  readonly shownPlacement = $derived(this.preview?.placement ?? this.placement);
  readonly shown: Evaluation = $derived(this.drag?.evaluation ?? this.preview?.evaluation ?? this.evaluation);
  /** What is shown when nothing is in the hand. */
  readonly resting: Evaluation = $derived(this.preview?.evaluation ?? this.evaluation);
  readonly cost = $derived(costOf(this.evaluation, this.objective));
  readonly layout = $derived.by(() => {
    const items = this.model.processes.length + this.model.segments.length;
    return layout(this.model.topology, this.links, items);
  });
  readonly marks = $derived(pack(this.layout.nodes, this.shownPlacement));
  readonly relations = $derived(relationsOf(this.model));
  readonly selectedKeys = $derived(new Set(this.selection.map(itemKey)));
  readonly undoLabel = $derived(this.past.at(-1)?.label ?? null);
  readonly redoLabel = $derived(this.future.at(-1)?.label ?? null);
  readonly moves = $derived(this.past.length);

  constructor(
    readonly engine: Engine,
    readonly module: WebAssembly.Module,
  ) {}

  /** The model as a file's text. Made once for each model: that of a large one takes as long as a frame. */
  get text(): string {
    if (this.written?.model !== this.model) this.written = { model: this.model, text: JSON.stringify(this.model) };
    return this.written.text;
  }

  /**
   * Opens a model file, with a placement or the one where everything is dealt out. Nothing changes if it is refused.
   *
   * @throws InputError with the path of the field
   */
  open(text: string, place?: (model: Model) => Placement) {
    const { links } = this.engine.open(text);
    const model = filledIn(JSON.parse(text) as Model);
    let placement: Placement;
    try {
      placement = place?.(model) ?? dealtOut(model);
    } catch (error) {
      if (this.model) this.engine.open(this.text);
      throw error;
    }
    this.drag = null;
    this.preview = null;
    this.selection = [];
    this.focused = null;
    this.past = [];
    this.future = [];
    this.links = links;
    this.model = model;
    this.written = { model, text };
    this.objective = model.objective ?? 'sum';
    this.show(placement);
    this.rescale();
    this.kept = [{ name: 'A', placement, evaluation: this.evaluation }];
    if (this.view === 'compare') this.view = 'machine';
    this.opened++;
  }

  private show(placement: Placement) {
    this.placement = placement;
    this.evaluation = this.engine.evaluate(placement, true);
    this.violations = this.engine.violations();
  }

  /** Ends the colour scales where the shown placement has its largest values. */
  rescale() {
    let most = 0;
    for (const bytes of this.shown.links) most = Math.max(most, bytes);
    this.linkScale = most;
    most = 0;
    for (const ns of this.shown.segments) most = Math.max(most, ns);
    this.segmentScale = most;
  }

  /**
   * Makes a change that can be undone.
   *
   * @throws InputError if the engine refuses the changed model; then nothing has changed
   */
  commit(label: string, next: Partial<State>) {
    const before: Step = { model: this.model, placement: this.placement, label };
    this.go({ model: next.model ?? this.model, placement: next.placement ?? this.placement });
    this.past = [...this.past, before];
    this.future = [];
  }

  undo() {
    const step = this.past.at(-1);
    if (!step) return this.say('Nothing to undo.');
    const now: Step = { model: this.model, placement: this.placement, label: step.label };
    const cost = this.cost;
    this.go(step);
    this.past = this.past.slice(0, -1);
    this.future = [...this.future, now];
    this.say(`Undone: ${step.label}. ${this.costText(cost)}`);
  }

  redo() {
    const step = this.future.at(-1);
    if (!step) return this.say('Nothing to redo.');
    const now: Step = { model: this.model, placement: this.placement, label: step.label };
    const cost = this.cost;
    this.go(step);
    this.future = this.future.slice(0, -1);
    this.past = [...this.past, now];
    this.say(`Done again: ${step.label}. ${this.costText(cost)}`);
  }

  private go({ model, placement }: State) {
    this.drag = null;
    this.preview = null;
    const wasEmpty = this.linkScale === 0 && this.segmentScale === 0;
    if (model !== this.model) {
      const text = JSON.stringify(model);
      const { links } = this.engine.open(text);
      const inRange = ({ kind, index }: Item) => index < (kind === 'process' ? model.processes : model.segments).length;
      this.model = model;
      this.written = { model, text };
      this.links = links;
      this.selection = this.selection.filter(inRange);
      if (this.focused && !inRange(this.focused)) this.focused = null;
      // Placements that were kept may not be placements of the changed model.
      const fits = ({ placement: { processes, segments } }: Kept) =>
        processes.length === model.processes.length && segments.length === model.segments.length;
      this.show(placement);
      this.kept = this.kept
        .filter(fits)
        .map((kept) => ({ ...kept, evaluation: this.engine.evaluate(kept.placement, false) }));
    } else {
      this.show(placement);
    }
    if (wasEmpty) this.rescale();
  }

  costText(before?: number): string {
    const now = amount(this.cost, unitOf(this.objective));
    const what = { sum: 'Total', makespan: 'Longest process', max_link: 'Busiest link' }[this.objective];
    return `${what} ${now}${before === undefined ? '' : `, ${change(before, this.cost)}`}.`;
  }

  say(text: string) {
    // The same words twice would not be read again.
    this.said = this.said === text ? `${text}\u00a0` : text;
  }

  select(items: readonly Item[]) {
    this.selection = items;
  }

  /** Takes items into the hand and tries them on every node. `grabbed` is the copy that was taken. */
  take(items: readonly Item[], grabbed?: Taken) {
    this.preview = null;
    const taken = items.map((item): Taken => {
      if (grabbed && itemKey(grabbed.item) === itemKey(item)) return grabbed;
      return { item, from: this.home(item) };
    });
    const trial = this.engine.trial(taken);
    const costs = costsOf(trial, this.objective);
    let best = -1;
    costs.forEach((cost, node) => {
      if (trial.obstacles[node] === 0 && (best < 0 || cost < (costs[best] ?? 0) * (1 - 1e-12))) best = node;
    });
    this.drag = { taken, trial, best, target: null, evaluation: null };
  }

  private home(item: Item): number {
    return item.kind === 'process'
      ? (this.placement.processes[item.index] ?? 0)
      : (this.placement.segments[item.index]?.[0] ?? 0);
  }

  /** The hand is over a node, or over none. */
  over(node: number | null) {
    const { drag } = this;
    if (!drag || drag.target === node) return;
    const allowed = node !== null && drag.trial.obstacles[node] === 0;
    const evaluation = allowed ? this.engine.follow(this.model, drag.taken, node) : null;
    this.drag = { ...drag, target: node, evaluation };
  }

  /** Lets go where the hand is. Over no node, or over one where nothing may be dropped, everything goes back. */
  drop() {
    const { drag } = this;
    if (!drag) return;
    const { taken, target, trial } = drag;
    const what = this.name(taken.map(({ item }) => item));
    if (target === null) return this.cancel();
    const obstacle = trial.obstacles[target] ?? 0;
    if (obstacle) {
      this.drag = null;
      return this.say(`${what} cannot go to node ${target}: ${OBSTACLES[obstacle]}.`);
    }
    const swap = trial.swaps[target] ?? -1;
    const placement = this.movedTo(taken, target, swap);
    if (differences(this.placement, placement).length === 0) return this.cancel();
    const cost = this.cost;
    const other = swap >= 0 ? this.model.processes[swap]?.id : null;
    this.commit(other ? `swap ${what} and ${other}` : `move ${what} to node ${target}`, { placement });
    this.say(`${other ? `${what} and ${other} changed places` : `${what} moved to node ${target}`}. ${this.costText(cost)}`);
  }

  cancel() {
    if (this.drag) this.say('Put back.');
    this.drag = null;
  }

  name(items: readonly Item[]): string {
    const [first] = items;
    return items.length === 1 && first ? itemId(this.model, first) : `${items.length} items`;
  }

  /** The placement with items on another node, and a process that changes places with them (-1: none). */
  movedTo(taken: readonly Taken[], node: number, swap = -1): Placement {
    const processes = this.placement.processes.slice();
    const segments = this.placement.segments.slice();
    if (swap >= 0) processes[swap] = taken[0]?.from ?? 0;
    for (const { item, from } of taken) {
      if (item.kind === 'process') processes[item.index] = node;
      else {
        const others = (segments[item.index] ?? []).filter((copy) => copy !== from && copy !== node);
        segments[item.index] = [...others, node].sort((a, b) => a - b);
      }
    }
    return { processes, segments };
  }

  /** Shows a placement without taking it; `null`: what was there before. */
  look(placement: Placement | null) {
    this.preview = placement && { placement, evaluation: this.engine.evaluate(placement, false) };
  }

  /** Puts the shown placement aside, to be compared. */
  keep() {
    const used = new Set(this.kept.map(({ name }) => name));
    const name = [...KEPT_NAMES].find((letter) => !used.has(letter)) ?? `${this.kept.length + 1}`;
    this.kept = [...this.kept, { name, placement: this.placement, evaluation: this.evaluation }];
    this.say(`Kept as ${name}. ${this.costText()}`);
  }

  forget(name: string) {
    this.kept = this.kept.filter((kept) => kept.name !== name);
  }
}
