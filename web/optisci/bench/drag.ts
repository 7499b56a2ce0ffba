/**
 * How smooth it is to drag in a large model: 256 nodes, 5000 segments, 20 000 accesses in headless Chromium.
 *
 * Run it with `make bench-web`. It reports; it judges nothing. The work of a frame is measured in the page: the time in its
 * listeners for moves of the pointer, and from the beginning of the frame to the end of all that is painted in it. Intervals
 * between frames show what the browser makes of it; 16.7 ms is as often as it asks for frames.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { large } from '../src/examples/examples';
import { dealtOut, type Item } from '../src/model/model';
import { launch, openPage, Picture, Server } from '../tests/browser/chromium';

const MOVES = 240;

const quantile = (values: number[], share: number) => values.slice().sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? 0;
const line = (name: string, values: number[]) =>
  `${name.padEnd(34)} p50 ${quantile(values, 0.5).toFixed(1)}  p95 ${quantile(values, 0.95).toFixed(1)}  max ${Math.max(...values).toFixed(1)} ms  (${values.length})`;

const folder = mkdtempSync(join(tmpdir(), 'optisci-'));
const model = large();
const text = JSON.stringify(model);
const path = join(folder, 'large.json');
writeFileSync(path, text);
const server = await Server.start(path);
const browser = await launch();
try {
  console.log(`${model.id}, ${model.accesses.length} accesses; ${cpus().length} × ${cpus()[0]?.model}; Chromium ${browser.version()}`);
  const opens: number[] = [];
  for (let round = 0; round < 3; round++) {
    const began = performance.now();
    const { page } = await openPage(browser, server.address);
    await page.waitForFunction(() => document.querySelectorAll('[role=row]').length > 10);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    opens.push(performance.now() - began);
    await page.context().close();
  }
  console.log(line('open, until it is painted', opens));
  const { page } = await openPage(browser, server.address);
  await page.waitForTimeout(4000); // the explanation in the background is not what is measured
  const picture = await Picture.of(page, text);
  const placement = dealtOut(model);
  for (const item of [{ kind: 'segment', index: 1000 }, { kind: 'process', index: 100 }] as Item[]) {
    const from = picture.item(placement, item);
    await page.mouse.move(from.x, from.y);
    await page.mouse.down();
    await page.evaluate(() => {
      const store = { work: [] as number[], intervals: [] as number[], last: 0, began: 0, spent: 0, isOn: true };
      (window as unknown as { measured: typeof store }).measured = store;
      // What the page does when the pointer moves: its listener is called between these two.
      window.addEventListener('pointermove', () => (store.began = performance.now()), { capture: true });
      window.addEventListener('pointermove', () => (store.spent += performance.now() - store.began));
      const frame = (time: number) => {
        if (store.last > 0) store.intervals.push(time - store.last);
        store.last = time;
        const began = performance.now();
        // Asked for first, so called first: what this frame paints is done when the next message comes.
        const channel = new MessageChannel();
        channel.port1.onmessage = () => {
          if (store.spent > 0) store.work.push(store.spent + performance.now() - began);
          store.spent = 0;
        };
        channel.port2.postMessage(0);
        if (store.isOn) requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    });
    for (let step = 1; step <= MOVES; step++) {
      const angle = (step / MOVES) * 4 * Math.PI;
      const reach = 60 + 2.1 * step;
      const [x, y] = [680 + Math.cos(angle) * Math.min(reach, 360), 400 + Math.sin(angle) * Math.min(reach, 310)];
      await page.mouse.move(x, y);
    }
    const { work, intervals } = await page.evaluate(() => {
      const { measured } = window as unknown as { measured: { work: number[]; intervals: number[]; isOn: boolean } };
      measured.isOn = false;
      return measured;
    });
    await page.keyboard.press('Escape');
    await page.mouse.up();
    console.log(line(`drag a ${item.kind}: work of a frame`, work));
    console.log(line(`drag a ${item.kind}: between frames`, intervals));
  }
} finally {
  await browser.close();
  server.stop();
  rmSync(folder, { recursive: true });
}
