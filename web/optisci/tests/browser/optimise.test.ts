/** Searching from the page: live results, one step to undo, and nothing that is pinned moves. */
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

it('the best placement is found, proved, shown, and taken as one step', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const start = await total(page);
  await page.keyboard.press('o');
  const panel = page.locator('[data-test=optimise]');
  await panel.getByRole('heading', { name: 'Proved best' }).waitFor();
  const best = await total(page);
  expect(best).not.toBe(start);
  await screenshot(page, 'optimised');
  await panel.getByRole('button', { name: 'Discard' }).click();
  expect(await total(page)).toBe(start);

  await page.keyboard.press('o');
  await panel.getByRole('heading', { name: 'Proved best' }).waitFor();
  await panel.getByRole('button', { name: 'Take it' }).click();
  expect(await total(page)).toBe(best);
  expect(await said(page)).toMatch(/^Placement taken, \d+ moved\./);
  await page.keyboard.press('Control+z');
  expect(await total(page)).toBe(start);
  expect(await page.locator('button[aria-label=Undo]').isDisabled()).toBe(true);
  expect(errors).toEqual([]);
  await page.context().close();
});

it('a search can be stopped, and what it has found is on offer', async () => {
  const { page, errors } = await openPage(browser, server.address);
  await page.getByRole('button', { name: 'Open', exact: true }).click();
  await page.getByRole('button', { name: /^A large program/ }).click();
  const start = await total(page);
  await page.keyboard.press('o');
  const panel = page.locator('[data-test=optimise]');
  await panel.getByRole('button', { name: 'Take it' }).waitFor();
  expect(await panel.textContent()).toContain('nothing is below');
  await panel.getByRole('img', { name: /^Best cost and bound over/ }).waitFor();
  await screenshot(page, 'searching');
  // Who shares a node with whom is found, and bounded, long before any annealing has ended.
  await page.waitForFunction(() => {
    const gap = /gap([\d.]+) %/.exec(document.querySelector('[data-test=optimise]')?.textContent ?? '')?.[1];
    return gap !== undefined && Number(gap) < 2;
  });
  const stop = panel.getByRole('button', { name: 'Stop' });
  if (await stop.isVisible()) await page.keyboard.press('Escape');
  await panel.getByRole('button', { name: 'Take it' }).click();
  expect(await total(page)).not.toBe(start);
  await screenshot(page, 'large-optimised');
  expect(errors).toEqual([]);
  await page.context().close();
});

it('what is pinned stays', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const row = page.locator('[role=row]', { hasText: 'queue 0' });
  await row.click();
  await page.keyboard.press('m');
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  await page.keyboard.press('p');
  await page.keyboard.press('o');
  await page.locator('[data-test=optimise]').getByRole('button', { name: 'Take it' }).click();
  expect(await row.getByRole('gridcell').first().textContent()).toBe('3');
  expect(errors).toEqual([]);
  await page.context().close();
});

it('what was found for a model that has changed is not on offer', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const panel = page.locator('[data-test=optimise]');
  await page.keyboard.press('o');
  await panel.getByRole('heading', { name: 'Proved best' }).waitFor();
  await page.locator('[role=row]', { hasText: 'queue 0' }).click();
  await page.keyboard.press('p');
  await panel.waitFor({ state: 'detached' });
  expect(await said(page)).toBe('queue 0 pinned. The search ended: it was of the model before.');
  expect(errors).toEqual([]);
  await page.context().close();
});

it('a search whose model has changed ends', async () => {
  const { page, errors } = await openPage(browser, server.address);
  await page.getByRole('button', { name: 'Open', exact: true }).click();
  await page.getByRole('button', { name: /^A large program/ }).click();
  const panel = page.locator('[data-test=optimise]');
  await page.keyboard.press('o');
  await panel.getByRole('button', { name: 'Take it' }).waitFor();
  await page.getByRole('button', { name: 'Process', exact: true }).click();
  await panel.waitFor({ state: 'detached' });
  // Another search begins with the new model, and its results are of that.
  await page.keyboard.press('o');
  await panel.getByRole('button', { name: 'Take it' }).click();
  expect(await said(page)).toMatch(/^Placement taken, /);
  expect(errors).toEqual([]);
  await page.context().close();
});
