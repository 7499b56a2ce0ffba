/** Long work, started from the page: a worker for each job, gone when it is done or no longer wanted. */
import type { Job, Order, Report } from './worker';

export interface Running {
  /** Ends it; nothing is reported any more. */
  stop(): void;
}

export function run(module: WebAssembly.Module, text: string, job: Job, report: (report: Report) => void): Running {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data }: MessageEvent<Report>) => {
    if (data.kind !== 'incumbent') worker.terminate();
    report(data);
  };
  worker.onerror = (event) => {
    worker.terminate();
    report({ kind: 'failed', message: event.message || 'the worker could not be started' });
  };
  const order: Order = { module, text, job };
  worker.postMessage(order);
  return { stop: () => worker.terminate() };
}
