/** Dragging with the mouse: the cost follows, every node is tinted, and everything can be undone. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { CONTENDED, WIRE } from '../../src/engine/engine';
import { pipeline } from '../../src/examples/examples';
import { filledIn } from '../../src/model/edit';
import { dealtOut, type Item, type Model, moved } from '../../src/model/model';
import { share, time } from '../../src/model/numbers';
import { colourAt, engine, launch, openPage, painted, Picture, root, said, screenshot, Server, total } from './chromium';

let browser: Browser;
let server: Server;
const path = join(root, 'examples/placement/scheduler.json');
const text = readFileSync(path, 'utf8');
const model = filledIn(JSON.parse(text) as Model);
const start = dealtOut(model);
const queue: Item = { kind: 'segment', index: 0 };

beforeAll(async () => {
  [browser, server] = await Promise.all([launch(), Server.start(path)]);
});
afterAll(async () => {
  await browser.close();
  server.stop();
});

/** What the engine says about the queue on each node. */
async function totals(): Promise<string[]> {
  const made = await engine();
  made.open(text);
  return [0, 1, 2, 3].map((node) => time(made.evaluate(moved(start, queue, node), false).total));
}

async function grab(page: Page, picture: Picture, item: Item) {
  const { x, y } = picture.item(start, item);
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(x + 8, y + 2);
}

it('the cost of each node is shown while the item is over it, and the one it was dropped on stays', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const picture = await Picture.of(page, text);
  const expected = await totals();
  expect(await total(page)).toBe(expected[0]);
  await grab(page, picture, queue);
  for (const node of [1, 2, 3, 2]) {
    const { x, y } = picture.node(node);
    await page.mouse.move(x, y);
    expect(await total(page)).toBe(expected[node]);
  }
  await screenshot(page, 'drag');
  await page.mouse.up();
  expect(await total(page)).toBe(expected[2]);
  expect(await said(page)).toMatch(/^queue 0 moved to node 2\. Total /);
  expect(await page.locator('#row-s0 [role=gridcell]').first().textContent()).toBe('2');

  await page.keyboard.press('Control+z');
  expect(await total(page)).toBe(expected[0]);
  await page.keyboard.press('Control+y');
  expect(await total(page)).toBe(expected[2]);
  await page.keyboard.press('Control+Shift+z');
  expect(await said(page)).toBe('Nothing to redo.');
  expect(errors).toEqual([]);
  await page.context().close();
});

it('every node has the tint of what it would cost, and links and breakdown follow the hand', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const picture = await Picture.of(page, text);
  const breakdown = page.getByRole('region', { name: 'Cost of each process' });
  const before = { links: await painted(page, 'links'), breakdown: await breakdown.textContent() };
  expect(await colourAt(page, 'boxes', picture.node(2))).toEqual([255, 255, 255]);
  await grab(page, picture, queue);
  // The queue is at a reader. A writer's node is dearer: orange. The other reader's is as good as this one.
  for (const node of [2, 3]) {
    const [red, , blue] = await colourAt(page, 'boxes', picture.node(node));
    expect(red - blue, `node ${node}`).toBeGreaterThan(60);
  }
  const [red, green, blue] = await colourAt(page, 'boxes', picture.node(1));
  expect(Math.max(red, green, blue) - Math.min(red, green, blue)).toBeLessThan(40);
  await page.mouse.move(picture.node(2).x, picture.node(2).y);
  expect(await breakdown.textContent()).not.toBe(before.breakdown);
  expect(await painted(page, 'links')).not.toBe(before.links);
  await page.keyboard.press('Escape');
  await page.mouse.up();
  expect(await breakdown.textContent()).toBe(before.breakdown);
  expect(await painted(page, 'links')).toBe(before.links);

  // From a writer's node, a reader's is cheaper: blue.
  await grab(page, picture, { kind: 'segment', index: 2 });
  const [r, , b] = await colourAt(page, 'boxes', picture.node(0));
  expect(b - r).toBeGreaterThan(60);
  await page.keyboard.press('Escape');
  await page.mouse.up();
  expect(errors).toEqual([]);
  await page.context().close();
});

it('what of the wires is contended is hatched, follows the hand, and is what an evaluation says', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const picture = await Picture.of(page, text);
  const made = await engine();
  made.open(text);
  const wires = (node: number) => {
    const { processes } = made.evaluate(moved(start, queue, node), false);
    const sum = (term: number) => processes.reduce((sum, { terms }) => sum + (terms[term] ?? 0), 0);
    return { contended: time(sum(CONTENDED)), part: share(sum(CONTENDED), sum(WIRE) + sum(CONTENDED)) };
  };
  const bars = page.getByRole('region', { name: 'Cost of each process' });
  await bars.getByRole('button', { name: 'Wire', exact: true }).click();
  expect(await bars.locator('.names li').allTextContents()).toEqual([expect.stringMatching(/^Wire/), `Contended wire${wires(0).part}`]);
  expect(await bars.getByRole('row', { name: /master 1/ }).textContent()).toMatch(/Contended wire [0-9.]+ µs, \d+ %/);
  await grab(page, picture, queue);
  for (const node of [2, 3, 1]) {
    const { x, y } = picture.node(node);
    await page.mouse.move(x, y);
    const { contended, part } = wires(node);
    expect(await bars.locator('.contention').textContent()).toContain(`${contended}, ${part} of what wires cost`);
  }
  await screenshot(page, 'contended');
  await page.mouse.up();
  expect(await bars.locator('.contention').textContent()).toContain(`${wires(1).contended}, `);
  const hatched = bars.locator('.stack.whole .hatched');
  expect(await hatched.evaluate((bar) => getComputedStyle(bar).backgroundImage)).toContain('repeating-linear-gradient');
  expect(await page.locator('#row-p1 [role=gridcell]').last().textContent()).toMatch(/ of it contended$/);
  expect(errors).toEqual([]);
  await page.context().close();
});

it('a frame drawn with Shift selects what is inside; the wheel zooms and F shows everything again', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const box = await page.locator('.machine').boundingBox();
  if (!box) throw new Error('the machine is not shown');
  const whole = await painted(page, 'boxes');
  await page.keyboard.down('Shift');
  await page.mouse.move(box.x + 4, box.y + 4);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width - 4, box.y + box.height - 4, { steps: 3 });
  await page.mouse.up();
  await page.keyboard.up('Shift');
  expect(await said(page)).toBe('7 items selected.');
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.wheel(0, -300);
  expect(await painted(page, 'boxes')).not.toBe(whole);
  await page.keyboard.press('f');
  expect(await painted(page, 'boxes')).toBe(whole);
  expect(errors).toEqual([]);
  await page.context().close();
});

it('an item that is dropped beside the machine, or put back with Escape, stays where it was', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const picture = await Picture.of(page, text);
  const before = await total(page);
  await grab(page, picture, queue);
  await page.mouse.move(picture.node(1).x, picture.node(1).y);
  await page.keyboard.press('Escape');
  await page.mouse.up();
  expect(await total(page)).toBe(before);
  await grab(page, picture, queue);
  const box = await page.locator('.machine').boundingBox();
  await page.mouse.move((box?.x ?? 0) + 6, (box?.y ?? 0) + 6);
  await page.mouse.up();
  expect(await total(page)).toBe(before);
  expect(await page.locator('button[aria-label=Undo]').isDisabled()).toBe(true);
  expect(errors).toEqual([]);
  await page.context().close();
});

it('several items move together, and a process changes places with one that has the last slot', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const picture = await Picture.of(page, text);
  await page.keyboard.down('Shift');
  for (const index of [1, 2]) {
    const { x, y } = picture.item(start, { kind: 'segment', index });
    await page.mouse.click(x, y);
  }
  await page.keyboard.up('Shift');
  await grab(page, picture, { kind: 'segment', index: 1 });
  await page.mouse.move(picture.node(3).x, picture.node(3).y);
  await page.mouse.up();
  expect(await said(page)).toMatch(/^2 items moved to node 3/);
  await page.keyboard.press('Control+z');
  await page.keyboard.press('Escape');

  await grab(page, picture, { kind: 'process', index: 0 });
  await page.mouse.move(picture.node(3).x, picture.node(3).y);
  await page.mouse.up();
  expect(await said(page)).toMatch(/^master 0 and slave 1 changed places/);
  expect(errors).toEqual([]);
  await page.context().close();
});

it('a pinned item is refused with the reason', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const picture = await Picture.of(page, text);
  const { x, y } = picture.item(start, queue);
  await page.mouse.click(x, y);
  await page.keyboard.press('p');
  const before = await total(page);
  await grab(page, picture, queue);
  await page.mouse.move(picture.node(1).x, picture.node(1).y);
  await screenshot(page, 'drag-pinned');
  await page.mouse.up();
  expect(await said(page)).toBe('queue 0 cannot go to node 1: pinned.');
  expect(await total(page)).toBe(before);
  await page.keyboard.press('Control+z');
  expect(await page.locator('#row-s0 .pin').count()).toBe(0);
  expect(errors).toEqual([]);
  await page.context().close();
});

it('what a process reads and writes is asked for by a double click, as in DAMIT', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const picture = await Picture.of(page, text);
  const before = await total(page);
  const { x, y } = picture.item(start, { kind: 'process', index: 0 });
  await page.mouse.dblclick(x, y);
  await page.getByRole('dialog', { name: 'What master 0 reads and writes' }).waitFor();
  await page.getByRole('button', { name: 'Write', exact: true }).click();
  await page.getByLabel('Times, row 4').fill('50');
  await screenshot(page, 'accesses');
  await page.getByRole('button', { name: 'Save' }).click();
  expect(await total(page)).not.toBe(before);
  await page.keyboard.press('Control+z');
  expect(await total(page)).toBe(before);
  expect(errors).toEqual([]);
  await page.context().close();
});

it('a larger machine is drawn and dragged on in the dark', async () => {
  const { page, errors } = await openPage(browser, server.address, { colorScheme: 'dark' });
  const made = pipeline();
  await page.getByRole('button', { name: 'Open', exact: true }).click();
  await page.getByRole('button', { name: /^Pipeline on an SCI torus/ }).click();
  const picture = await Picture.of(page, JSON.stringify(made));
  const { x, y } = picture.item(dealtOut(made), { kind: 'segment', index: 5 });
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(picture.node(9).x, picture.node(9).y, { steps: 4 });
  await screenshot(page, 'drag-dark');
  await page.mouse.up();
  expect(await said(page)).toMatch(/moved to node 9/);
  expect(errors).toEqual([]);
  await page.context().close();
});
