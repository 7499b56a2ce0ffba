/** Everything without a mouse, and what automatic checks of accessibility find. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { launch, openPage, root, said, screenshot, Server, total } from './chromium';

let browser: Browser;
let server: Server;
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

beforeAll(async () => {
  [browser, server] = await Promise.all([launch(), Server.start(join(root, 'examples/placement/scheduler.json'))]);
});
afterAll(async () => {
  await browser.close();
  server.stop();
});

/** Tab until something has the focus. */
async function tabTo(page: Page, selector: string) {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press('Tab');
    if (await page.evaluate((selector) => document.activeElement?.matches(selector), selector)) return;
  }
  throw new Error(`the Tab key does not reach ${selector}`);
}

it('a segment is moved, undone, optimised and kept with keys alone', async () => {
  const { page, errors } = await openPage(browser, server.address);
  const start = await total(page);
  await tabTo(page, '[role=row]');
  await page.keyboard.press('End');
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('queue 2'));
  await page.keyboard.press('m');
  expect(await said(page)).toContain('queue 2 is in the hand');
  await page.keyboard.press('ArrowLeft');
  expect(await said(page)).toMatch(/^Node \d: .+ ms/);
  await page.keyboard.press('b');
  expect(await said(page)).toContain('the best');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Escape');
  expect(await total(page)).toBe(start);

  await page.keyboard.press('m');
  await page.keyboard.press('Home');
  await page.keyboard.press('Enter');
  expect(await said(page)).toMatch(/^queue 2 moved to node 0\. Total /);
  const moved = await total(page);
  expect(moved).not.toBe(start);
  await page.keyboard.press('Control+z');
  expect(await total(page)).toBe(start);

  await page.keyboard.press('k');
  await page.keyboard.press('3');
  await page.getByRole('heading', { name: 'Placements side by side' }).waitFor();
  await page.keyboard.press('2');
  await page.getByRole('heading', { name: 'Who uses what' }).waitFor();
  await page.keyboard.press('1');
  await page.keyboard.press('/');
  await page.keyboard.type('queue 1');
  await page.waitForFunction(() => document.querySelectorAll('[role=rowgroup] [role=row]').length === 1);
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('queue 1'));
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'Who reads and writes queue 1' }).waitFor();
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('queue 1'));
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.keyboard.press('Escape');
  expect(errors).toEqual([]);
  await page.context().close();
});

it('axe finds nothing in any view, light and dark', async () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    const { page, errors } = await openPage(browser, server.address, { colorScheme, reducedMotion: 'reduce' });
    const check = async (what: string) => {
      await page.evaluate(axe);
      const found = await page.evaluate(async () => {
        const { axe } = window as unknown as { axe: { run: (options: object) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> } };
        const { violations } = await axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] });
        return violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`));
      });
      expect(found, `${colorScheme}, ${what}`).toEqual([]);
      await screenshot(page, `${what}-${colorScheme}`);
    };
    await check('machine');
    await page.locator('[role=row]', { hasText: 'queue 0' }).click();
    await page.keyboard.press('m');
    await page.keyboard.press('b');
    await check('moving');
    await page.keyboard.press('Escape');
    await page.keyboard.press('2');
    await check('matrix');
    await page.keyboard.press('k');
    await page.keyboard.press('3');
    await check('compare');
    await page.keyboard.press('1');
    await page.getByRole('button', { name: 'Open', exact: true }).click();
    await page.getByRole('button', { name: 'New machine' }).click();
    await check('gallery');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Export' }).click();
    await page.waitForFunction(() => document.querySelector<HTMLInputElement>('dialog input')?.value.includes('#m='));
    await check('export');
    await page.keyboard.press('Escape');
    await page.locator('[role=row]', { hasText: 'queue 0' }).dblclick();
    await check('accesses-dialog');
    await page.keyboard.press('Escape');
    expect(errors).toEqual([]);
    await page.context().close();
  }
});

it('whoever wants less motion gets none', async () => {
  for (const [reducedMotion, expected] of [['reduce', 'none'], ['no-preference', /rise/]] as const) {
    const { page, errors } = await openPage(browser, server.address, { reducedMotion });
    await page.keyboard.press('?');
    const animation = await page.getByRole('dialog').evaluate((dialog) => getComputedStyle(dialog).animationName);
    expect(animation).toMatch(expected);
    expect(errors).toEqual([]);
    await page.context().close();
  }
});

it('at 200 % zoom and on a narrow screen nothing is cut off', async () => {
  const { page, errors } = await openPage(browser, server.address, { viewport: { width: 640, height: 720 } });
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(640);
  await page.getByRole('button', { name: 'Optimise' }).waitFor();
  await screenshot(page, 'narrow');
  // The panel with the costs is further down, so the total is on the picture too.
  expect(await page.locator('.stage > p.number').textContent()).toContain(await total(page));
  await page.locator('[data-test=total]').scrollIntoViewIfNeeded();
  expect(await page.locator('[data-test=total]').isVisible()).toBe(true);
  // Everything can be reached by scrolling, to the last line of the last panel.
  await page.mouse.move(600, 700);
  await page.mouse.wheel(0, 10_000);
  await page.waitForFunction(() => {
    const { bottom, height } = document.querySelector('[aria-label=Explanation]')?.getBoundingClientRect() ?? new DOMRect();
    return height > 100 && bottom <= window.innerHeight + 1;
  });
  await page.getByRole('button', { name: 'Wire', exact: true }).click();
  await page.getByText('lie on links shared with other processes').waitFor();
  await screenshot(page, 'narrow-costs');
  await page.mouse.wheel(0, -10_000);
  await page.setViewportSize({ width: 360, height: 700 });
  for (const key of ['1', '2', '3']) {
    await page.keyboard.press(key);
    expect(await page.evaluate(() => document.documentElement.scrollWidth), `view ${key}`).toBeLessThanOrEqual(360);
    for (const button of await page.locator('.top button:visible, .stage .segmented button:visible').all()) {
      const box = await button.boundingBox();
      expect(box && box.x >= 0 && box.x + box.width <= 360, `view ${key}: ${await button.textContent()}`).toBeTruthy();
    }
    await screenshot(page, `phone-${key}`);
  }
  expect(errors).toEqual([]);
  await page.context().close();
});
