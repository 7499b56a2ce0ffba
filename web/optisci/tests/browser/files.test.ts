/** Files in and out, the link, and the three mappings of the paper; and the page's engine against the command. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { EXAMPLES } from '../../src/examples/examples';
import { filledIn } from '../../src/model/edit';
import { dealtOut, type Model, placementFile } from '../../src/model/model';
import { deck, engine, launch, openPage, root, screenshot, Server, total } from './chromium';

let browser: Browser;
let server: Server;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'optisci-files-'));
  [browser, server] = await Promise.all([launch(), Server.start()]);
});
afterAll(async () => {
  await browser.close();
  server.stop();
  rmSync(folder, { recursive: true });
});

async function save(page: Page, name: string): Promise<string> {
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('dialog').getByRole('button', { name }).click()]);
  const path = join(folder, download.suggestedFilename());
  await download.saveAs(path);
  return path;
}

/** Drops a file onto the page. */
async function drop(page: Page, name: string, text: string) {
  const data = await page.evaluateHandle(
    ({ name, text }) => {
      const data = new DataTransfer();
      data.items.add(new File([text], name));
      return data;
    },
    { name, text },
  );
  await page.dispatchEvent('.page', 'drop', { dataTransfer: data });
}

it('a first visit begins with the gallery, and the paper’s mappings stand side by side', async () => {
  const { page, errors } = await openPage(browser, server.address, { isFirst: true });
  await page.getByRole('dialog', { name: 'Where should memory live?' }).waitFor();
  await page.getByRole('button', { name: /^Distributed scheduler/ }).click();
  await page.keyboard.press('3');
  const shares = await page.locator('tbody tr td:nth-of-type(4)').allTextContents();
  expect(shares.map((share) => share.trim())).toEqual(['100 %', '92 %', '86 %']);
  await screenshot(page, 'table-1');
  const rowOfC = page.getByRole('row', { name: /^C/ });
  await rowOfC.getByRole('button', { name: 'Go to' }).click();
  expect(await total(page)).toBe('426.1 ms');
  await rowOfC.getByRole('button', { name: 'Base' }).click();
  expect(await rowOfC.locator('td').nth(4).textContent()).toBe('0');
  await page.keyboard.press('Control+z');
  expect(await total(page)).toBe('494.1 ms');
  expect(errors).toEqual([]);
  await page.context().close();
});

it('every file that can be saved is what it says, and the command reads it', async () => {
  const { page, errors } = await openPage(browser, server.address);
  await page.getByRole('button', { name: /^Two sockets/ }).click();
  const shown = await total(page);
  await page.getByRole('button', { name: 'Export' }).click();
  const model = await save(page, 'Model JSON');
  const placement = await save(page, 'Placement JSON');
  const cost = spawnSync(deck, ['place', 'cost', model, placement, '--json'], { encoding: 'utf8' });
  expect(cost.status, cost.stderr).toBe(0);
  expect(`${((JSON.parse(cost.stdout) as { total_ns: number }).total_ns / 1e9).toFixed(3)} s`).toBe(shown);
  const both = JSON.parse(readFileSync(await save(page, 'Both'), 'utf8')) as object;
  expect(Object.keys(both)).toEqual(['model', 'placement']);
  expect(readFileSync(await save(page, 'Rankfile'), 'utf8')).toMatch(/^rank 0=/m);
  expect(readFileSync(await save(page, 'Host file'), 'utf8').trim().split('\n')).toHaveLength(8);
  expect(readFileSync(await save(page, 'numactl'), 'utf8')).toMatch(/numactl/);
  expect(readFileSync(await save(page, 'CSV'), 'utf8')).toContain('catalogue');
  const svg = readFileSync(await save(page, 'SVG'), 'utf8');
  expect(svg).toMatch(/^<svg xmlns/);
  expect(svg).toContain('catalogue');
  const png = readFileSync(await save(page, 'PNG'));
  expect(png.subarray(1, 4).toString()).toBe('PNG');
  expect(png.readUInt32BE(16)).toBeGreaterThanOrEqual(2000);
  expect(errors).toEqual([]);
  await page.context().close();
});

it('graphs for other tools are what the command writes', async () => {
  const { page, errors } = await openPage(browser, server.address);
  await page.getByRole('button', { name: /^Halo exchange/ }).click();
  await page.getByRole('button', { name: 'Export' }).click();
  const model = await save(page, 'Model JSON');
  const placement = await save(page, 'Placement JSON');
  const formats = { 'METIS graph': 'metis', 'METIS partition': 'metis-part', 'Scotch graph': 'scotch-graph', 'Scotch target': 'scotch-target', 'Scotch mapping': 'scotch-map' };
  for (const [name, format] of Object.entries(formats)) {
    const path = join(folder, `by-the-command.${format}`);
    const run = spawnSync(deck, ['place', 'export', format, model, placement, '-o', path], { encoding: 'utf8' });
    expect(run.status, run.stderr).toBe(0);
    expect(readFileSync(await save(page, name), 'utf8'), name).toBe(readFileSync(path, 'utf8'));
  }
  expect(errors).toEqual([]);
  await page.context().close();
});

it('files of every format that other tools wrote are taken', async () => {
  const { page, errors } = await openPage(browser, server.address);
  await page.getByRole('button', { name: /^Halo exchange/ }).click();
  const fixtures = join(root, 'crates/optisci/tests/fixtures');
  const cases: [string[], string][] = [
    [['hwloc/ring-of-four.xml'], '4 nodes'],
    [['openmpi/halo.0.prof', 'openmpi/halo.1.prof', 'openmpi/halo.2.prof', 'openmpi/halo.3.prof'], '4 processes'],
    [['metis/torus-4x4.graph'], '16 processes'],
    [['scotch/torus-4x4.grf'], '16 processes'],
    [['scotch/torus-4x4.tgt'], '16 nodes'],
  ];
  for (const [names, fact] of cases) {
    await page.locator('input[type=file]').setInputFiles(names.map((name) => join(fixtures, name)));
    const offer = page.getByRole('dialog', { name: /^Open / });
    expect(await offer.textContent(), names[0]).toContain(fact);
    await offer.getByRole('button', { name: 'Open', exact: true }).click();
    await offer.waitFor({ state: 'detached' });
    expect(await page.getByRole('alert').count(), names[0]).toBe(0);
    // Or the same files could not be chosen again.
    expect(await page.locator('input[type=file]').inputValue(), names[0]).toBe('');
  }
  // What the page saved comes back as it was.
  await page.getByRole('button', { name: 'Open', exact: true }).click();
  await page.getByRole('button', { name: /^Two sockets/ }).click();
  const shown = await total(page);
  await page.getByRole('button', { name: 'Export' }).click();
  const both = await save(page, 'Both');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Open', exact: true }).click();
  await page.getByRole('button', { name: /^Halo exchange/ }).click();
  await page.locator('input[type=file]').setInputFiles(both);
  await page.getByRole('dialog', { name: /^Open / }).getByRole('button', { name: 'Open', exact: true }).click();
  expect(await total(page)).toBe(shown);
  expect(errors).toEqual([]);
  await page.context().close();
});

it('a model too large for a link says so', async () => {
  const { page, errors } = await openPage(browser, server.address);
  await page.getByRole('button', { name: /^A large program/ }).click();
  await page.getByRole('button', { name: 'Export' }).click();
  await page.getByText('too large for a link').waitFor();
  expect(errors).toEqual([]);
  await page.context().close();
});

it('a link carries model and placement', async () => {
  const { page } = await openPage(browser, server.address);
  await page.getByRole('button', { name: /^Pipeline/ }).click();
  await page.keyboard.press('/');
  await page.keyboard.type('totals');
  await page.locator('[role=row]', { hasText: 'totals' }).click();
  await page.keyboard.press('m');
  await page.keyboard.press('b');
  await page.keyboard.press('Enter');
  const shown = await total(page);
  await page.getByRole('button', { name: 'Export' }).click();
  const field = page.getByLabel('Link with the model and the placement');
  await page.waitForFunction(() => document.querySelector<HTMLInputElement>('dialog input')?.value.includes('#m='));
  const link = await field.inputValue();
  await page.context().close();
  const other = await openPage(browser, link);
  expect(await total(other.page)).toBe(shown);
  expect(other.errors).toEqual([]);
  await other.page.context().close();
});

it('files that are dropped are looked at before they replace anything', async () => {
  const { page, errors } = await openPage(browser, server.address);
  await page.getByRole('button', { name: /^Distributed scheduler/ }).click();
  const before = await total(page);
  await drop(page, 'broken.json', '{\n "topology": {"kind": "torus", "dims": [4]},\n oops\n}');
  expect(await page.getByRole('alert').textContent()).toMatch(/^broken\.json.*line 3/);
  await page.getByRole('button', { name: 'Close the message' }).click();
  const scheduler = JSON.parse(EXAMPLES[0]?.model() ?? '') as Model;
  await drop(page, 'wrong.json', JSON.stringify({ ...scheduler, accesses: [{ ...scheduler.accesses[0], size: -1 }] }));
  expect(await page.getByRole('alert').textContent()).toMatch(/^wrong\.json: accesses\[0\]\.size/);
  await page.getByRole('button', { name: 'Close the message' }).click();
  await drop(page, 'both.json', JSON.stringify({ model: scheduler, placement: { processes: {}, segments: {} } }));
  expect(await page.getByRole('alert').textContent()).toMatch(/^both\.json: processes\.master 0: expected a node/);
  await page.getByRole('button', { name: 'Close the message' }).click();
  await drop(page, 'MAPPING.JSON', readFileSync(join(root, 'examples/placement/scheduler-a.json'), 'utf8'));
  await page.getByRole('dialog', { name: 'Open MAPPING.JSON?' }).getByRole('button', { name: 'Cancel' }).click();
  expect(await page.getByRole('dialog').count()).toBe(0);
  expect(await total(page)).toBe(before);

  await drop(page, 'halo.mat', '0 4096 0\n4096 0 4096\n0 4096 0\n');
  const offer = page.getByRole('dialog', { name: 'Open halo.mat?' });
  await offer.getByText('3 processes').waitFor();
  await screenshot(page, 'import');
  await offer.getByRole('button', { name: 'Cancel' }).click();
  expect(await total(page)).toBe(before);
  expect(errors).toEqual([]);
  await page.context().close();
});

it('the engine in the page and the command say the same', async () => {
  const made = await engine();
  for (const example of EXAMPLES) {
    const text = example.model();
    made.open(text);
    const model = filledIn(JSON.parse(text) as Model);
    const placement = dealtOut(model);
    const [modelPath, placementPath] = [join(folder, 'm.json'), join(folder, 'p.json')];
    writeFileSync(modelPath, text);
    writeFileSync(placementPath, JSON.stringify(placementFile(model, placement)));
    const cost = spawnSync(deck, ['place', 'cost', modelPath, placementPath, '--json'], { encoding: 'utf8', maxBuffer: 1 << 26 });
    expect(cost.status, cost.stderr).toBe(0);
    const told = JSON.parse(cost.stdout) as { total_ns: number; makespan_ns: number; max_link_bytes: number; per_process: Record<string, { read_ns: number }>; spent_per_process: Record<string, Record<string, number>> };
    const ours = made.evaluate(placement, true);
    const agree = (a: number, b: number) => expect(Math.abs(a - b), `${example.name}: ${a} ${b}`).toBeLessThanOrEqual(1e-9 * Math.max(a, b));
    agree(ours.total, told.total_ns);
    agree(ours.makespan, told.makespan_ns);
    agree(ours.maxLink, told.max_link_bytes);
    model.processes.forEach(({ id }, index) => agree(ours.processes[index]?.read ?? -1, told.per_process[id]?.read_ns ?? -2));
    const parts = ['memory_ns', 'bus_ns', 'bridge_ns', 'insertion_ns', 'wire_ns', 'contended_ns'];
    for (const [index, { id }] of model.processes.entries()) {
      parts.forEach((part, term) => agree(ours.processes[index]?.terms[term] ?? -1, told.spent_per_process[id]?.[part] ?? -2));
    }
  }
});
