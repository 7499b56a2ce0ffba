/** Where long work runs: searches, and explanations of large models. One job for each worker; to stop it, end the worker. */
import type { Objective, Placement } from '../model/model';
import { Engine, type Explanation, type Incumbent, type Outcome, type SolveRequest } from './engine';

export type Job =
  | { kind: 'solve'; request: SolveRequest }
  | { kind: 'explain'; placement: Placement; objective: Objective; top: number };
export interface Order {
  module: WebAssembly.Module;
  text: string;
  job: Job;
}
export type Report =
  | { kind: 'incumbent'; incumbent: Incumbent }
  | { kind: 'outcome'; outcome: Outcome }
  | { kind: 'explanation'; explanation: Explanation }
  | { kind: 'failed'; message: string };

const say = (report: Report) => self.postMessage(report);

self.onmessage = async ({ data: { module, text, job } }: MessageEvent<Order>) => {
  try {
    const engine = await Engine.start(module);
    engine.open(text);
    if (job.kind === 'solve') {
      const outcome = engine.solve(job.request, (incumbent) => say({ kind: 'incumbent', incumbent }));
      say({ kind: 'outcome', outcome });
    } else {
      engine.evaluate(job.placement, true);
      say({ kind: 'explanation', explanation: engine.explain(job.objective, job.top) });
    }
  } catch (error) {
    say({ kind: 'failed', message: error instanceof Error ? error.message : String(error) });
  }
};
