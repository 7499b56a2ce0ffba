/** Modelling in the page: a program from nothing, copies of segments, and what the views say about it. */
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { launch, openPage, root, said, screenshot, Server, total } from './chromium';

let browser: Browser;
let server: Server;

beforeAll(async () => {
  [browser, server] = await Promise.all([launch(), Server.start(join(root, 'examples/placement/scheduler.json'))]);
});
afterAll(async () => {
  await browser.close();
  server.stop();
});

it('a program is modelled from an empty machine, step by step, and every step can be undone', async () => {
  const { page, errors } = await openPage(browser, server.address);
  await page.getByRole('button', { name: 'Open', exact: true }).click();
  await page.getByRole('button', { name: 'New machine' }).click();
  await page.getByLabel('Name', { exact: true }).fill('Mine');
  await page.getByLabel('Shape').selectOption('torus');
  await page.getByLabel('Columns').fill('3');
  await page.getByLabel('Rows').fill('2');
  await page.getByRole('button', { name: 'Make 6 nodes' }).click();
  expect(await total(page)).toBe('0 ns');
  for (const kind of ['Process', 'Segment', 'Process']) await page.getByRole('button', { name: kind, exact: true }).click();
  const process = page.locator('[role=row]', { hasText: 'process 0' });
  await process.dblclick();
  await page.getByRole('button', { name: 'Read', exact: true }).click();
  await page.getByRole('button', { name: 'Message', exact: true }).click();
  await page.getByLabel('Times, row 1').fill('-3');
  await page.getByRole('button', { name: 'Save' }).click();
  expect(await page.getByRole('alert').textContent()).toContain('Row 1');
  await page.getByLabel('Times, row 1').fill('10');
  await page.getByRole('button', { name: 'Save' }).click();
  // Everything is on node 0: ten local reads of 2 KiB, and the message is free.
  expect(await total(page)).toBe('358.4 µs');
  await page.locator('[role=row]', { hasText: 'process 1' }).click();
  await page.keyboard.press('m');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  expect(await total(page)).not.toBe('358.4 µs');
  await page.getByLabel('Name of the process').fill('reader');
  await page.keyboard.press('Enter');
  await page.locator('[role=row]', { hasText: 'reader' }).waitFor();
  await page.getByRole('button', { name: 'Remove' }).click();
  expect(await page.locator('[role=rowgroup] [role=row]').count()).toBe(2);
  const undo = page.locator('button[aria-label^=Undo]');
  for (let steps = 0; await undo.isEnabled(); steps++) {
    expect(steps).toBeLessThan(20);
    await undo.click();
  }
  expect(await total(page)).toBe('0 ns');
  expect(await page.locator('[role=rowgroup] [role=row]').count()).toBe(0);
  expect(errors).toEqual([]);
  await page.context().close();
});

it('copies of a segment that is only read make it cheaper', async () => {
  const { page, errors } = await openPage(browser, server.address);
  await page.getByRole('button', { name: 'Open', exact: true }).click();
  await page.getByRole('button', { name: /^Two sockets/ }).click();
  const seconds = async () => parseFloat(await total(page));
  const alone = await seconds();
  await page.locator('[role=row]', { hasText: 'catalogue' }).click();
  const copies = page.getByRole('group', { name: 'Nodes with a copy' });
  await copies.getByRole('button', { name: '1', exact: true }).click();
  await copies.getByRole('button', { name: '2', exact: true }).click();
  expect(await seconds()).toBeLessThan(alone);
  expect(await said(page)).toMatch(/^catalogue has 3 copies\./);
  await screenshot(page, 'copies');
  await page.keyboard.press('Control+z');
  await page.keyboard.press('Control+z');
  expect(await seconds()).toBe(alone);
  expect(errors).toEqual([]);
  await page.context().close();
});

it('what is pinned has no copy elsewhere', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const row = page.locator('[role=row]', { hasText: 'queue 1' });
  await row.click();
  await page.getByLabel('May have copies').check();
  await page.getByRole('group', { name: 'Nodes with a copy' }).getByRole('button', { name: '3' }).click();
  const node = () => row.getByRole('gridcell').first().textContent();
  expect(await node()).toBe('1 + 3');
  await page.getByRole('button', { name: 'Pin here' }).click();
  expect(await node()).toBe('1');
  await page.keyboard.press('Control+z');
  expect(await node()).toBe('1 + 3');
  expect(errors).toEqual([]);
  await page.context().close();
});

it('the explanation names what weighs most, and its moves do what they promise', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const explanation = page.getByRole('region', { name: 'Explanation' });
  const before = parseFloat(await total(page));
  const [best] = await explanation.locator('.moves button').all();
  const promised = (await best?.locator('.better').textContent()) ?? '';
  expect(promised).toMatch(/^−\d/);
  await best?.click();
  const after = parseFloat(await total(page));
  expect(((before - after) / before) * 100).toBeCloseTo(parseFloat(promised.replace('−', '')), 1);
  expect(await explanation.locator('.weights button').count()).toBe(10);
  await explanation.locator('.weights button').first().click();
  await page.getByText('2 items selected').waitFor();
  expect(errors).toEqual([]);
  await page.context().close();
});

it('the matrix says who uses what, in four orders', async () => {
  const { page, errors } = await openPage(browser, server.address);
  await page.getByRole('button', { name: 'Open', exact: true }).click();
  await page.getByRole('button', { name: /^Two sockets/ }).click();
  await page.keyboard.press('2');
  const canvas = page.locator('.plot canvas');
  const picture = async () => canvas.evaluate((element) => (element as HTMLCanvasElement).toDataURL());
  const seen = new Set<string>();
  for (const order of ['As in the model', 'By bytes', 'By node', 'Alike together']) {
    await page.getByRole('button', { name: order }).click();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
    seen.add(await picture());
  }
  expect(seen.size).toBe(4);
  await page.getByRole('button', { name: 'As in the model' }).click();
  // The second cell of the first row.
  const box = await canvas.boundingBox();
  let told = '';
  for (let x = 60; x < 400 && !told.includes('input'); x += 12) {
    await page.mouse.move((box?.x ?? 0) + x, (box?.y ?? 0) + 110);
    told = (await page.locator('.tip').allTextContents()).join('');
  }
  expect(told).toContain('parser and input');
  expect(told).toContain('reads 400000 × 256 B');
  await page.mouse.down();
  await page.mouse.up();
  await page.getByText('2 items selected').waitFor();
  expect(errors).toEqual([]);
  await page.context().close();
});
