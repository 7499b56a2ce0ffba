/** A search that runs beside the page: what it has found so far is shown; taking it is one step that can be undone. */
import { run, type Running } from '../engine/background';
import { unitOf, type Outcome } from '../engine/engine';
import { differences, type Model, type Objective, type Placement } from '../model/model';
import { amount, change } from '../model/numbers';
import type { Session } from './session.svelte';

export interface Point {
  seconds: number;
  cost: number | null;
  bound: number | null;
}

export class Optimiser {
  isRunning = $state(false);
  isOpen = $state(false);
  objective = $state<Objective>('sum');
  points = $state.raw<readonly Point[]>([]);
  method = $state('');
  best = $state.raw<Placement | null>(null);
  outcome = $state.raw<Outcome | null>(null);
  failure = $state<string | null>(null);
  seconds = $state(10);
  elapsed = $state(0);
  /** What the placement cost from which the search was started. */
  before = $state(0);
  /** The model that was searched: what was found is a placement of no other. */
  searched = $state.raw<Model | null>(null);
  private running: Running | null = null;
  private clock = 0;

  constructor(private readonly session: Session) {}

  readonly last = $derived(this.points.at(-1) ?? null);
  readonly gap = $derived.by(() => {
    const { cost = null, bound = null } = this.last ?? {};
    return cost === null || bound === null || cost === 0 ? null : Math.max(0, (cost - bound) / cost);
  });

  start() {
    const { session } = this;
    this.halt();
    session.drag = null;
    session.look(null);
    this.searched = session.model;
    this.isOpen = true;
    this.isRunning = true;
    this.objective = session.objective;
    this.before = session.cost;
    this.points = [];
    this.best = null;
    this.outcome = null;
    this.failure = null;
    this.method = '';
    this.elapsed = 0;
    const began = performance.now();
    this.clock = window.setInterval(() => (this.elapsed = (performance.now() - began) / 1000), 100);
    session.say('Searching.');
    const request = { objective: this.objective, seconds: this.seconds, seed: 1 };
    this.running = run(session.module, session.text, { kind: 'solve', request }, (report) => {
      if (report.kind === 'incumbent') {
        const { cost, bound, method, seconds, placement } = report.incumbent;
        this.points = [...this.points, { seconds, cost, bound }];
        this.method = method;
        this.take(placement);
      } else if (report.kind === 'outcome') {
        const { outcome } = report;
        this.points = [...this.points, { seconds: outcome.seconds, cost: outcome.cost, bound: outcome.bound }];
        this.method = outcome.method;
        this.outcome = outcome;
        if (outcome.placement) this.take(outcome.placement);
        this.halt();
        session.say(this.summary);
      } else if (report.kind === 'failed') {
        this.failure = report.message;
        this.halt();
        session.say(`The search failed: ${report.message}`);
      }
    });
  }

  private take(placement: Placement) {
    this.best = placement;
    // The picture follows as long as nobody works on it.
    if (!this.session.drag) this.session.look(placement);
  }

  private halt() {
    this.running?.stop();
    this.running = null;
    this.isRunning = false;
    window.clearInterval(this.clock);
  }

  /** Ends the search; what it has found stays on offer. */
  stop() {
    this.halt();
    this.session.say(`Stopped. ${this.summary}`);
  }

  accept() {
    const { session, best } = this;
    this.halt();
    this.isOpen = false;
    if (!best) return session.look(null);
    const moves = differences(session.placement, best).length;
    const cost = session.cost;
    if (moves > 0) session.commit(`optimise (${moves} moved)`, { placement: best });
    else session.look(null);
    session.say(`Placement taken, ${moves} moved. ${session.costText(cost)}`);
  }

  discard() {
    this.halt();
    this.isOpen = false;
    this.best = null;
    this.session.look(null);
    this.session.say('Search result discarded.');
  }

  /** Lets go of a search whose model is not the open one any more: it may place what is gone, or move what is pinned. */
  outdate() {
    const { session } = this;
    this.halt();
    this.isOpen = false;
    this.best = null;
    session.look(null);
    session.say(`${session.said} The search ended: it was of the model before.`);
  }

  get summary(): string {
    const { last, outcome } = this;
    if (outcome?.status === 'infeasible') return `No placement obeys all limits: ${outcome.reason ?? ''}`;
    if (last?.cost === null || last?.cost === undefined) return outcome?.reason ?? 'Nothing was found.';
    const cost = `${amount(last.cost, unitOf(this.objective))}, ${change(this.before, last.cost)}`;
    if (outcome?.status === 'optimal') return `Proved best: ${cost}.`;
    return `Best found: ${cost}${this.gap === null ? '' : `, at most ${(this.gap * 100).toFixed(2)} % from the best`}.`;
  }
}
