/** The page on which the pictures of the applications grow, as `--watch` serves it. It is tested where there is a browser. */
import { readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { launch, root } from './chromium';

const html = readFileSync(join(root, 'apps/user-interface/src/watch.html'));
let browser: Browser;

beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

/** The last answer, with a strip of two rows. */
function answer(): Buffer {
  const head = Buffer.from(
    JSON.stringify({
      calculation: 1,
      title: 'A picture',
      what: '6x2',
      unit: 'slices',
      width: 6,
      height: 2,
      done: 1,
      total: 1,
      words: '1 of 1 slice',
      shares: [1],
      lost: [],
      notice: '',
      milliseconds: 5,
      ended: true,
      failure: null,
      next: 1,
      more: false,
    }),
  );
  const numbers = Buffer.from(Uint32Array.of(head.length, 0, 2, 0).buffer);
  return Buffer.concat([numbers.subarray(0, 4), head, numbers.subarray(4), Buffer.alloc(36, 200)]);
}

/** As through a slow tunnel: in pieces, and for longer than the page waits where nothing comes at all. */
async function trickle(to: ServerResponse) {
  const bytes = answer();
  to.writeHead(200, { 'Content-Length': bytes.length });
  const piece = Math.ceil(bytes.length / 8);
  for (let at = 0; at < bytes.length; at += piece) {
    to.write(bytes.subarray(at, at + piece));
    await sleep(400);
  }
  to.end();
}

it('an answer may take as long as it likes while some of it comes, and the program hears that somebody looks', async () => {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    if (request.url?.startsWith('/strips')) void trickle(response);
    else response.end(request.method === 'GET' ? html : undefined);
  });
  await new Promise<void>((listens) => server.listen(0, '127.0.0.1', listens));
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  await page.waitForFunction(() => ['finished', 'lost'].includes(document.body.dataset.state ?? ''));
  expect(await page.textContent('#state')).toBe('finished: 1 of 1 slice');
  expect(asked).toContain('HEAD /');
  await page.close();
  server.close();
});
