import { expect, it } from 'vitest';
import { EXAMPLES, halo, large, pipeline } from '../examples/examples';
import { clustered } from '../model/matrix';
import { dealtOut, placementFile } from '../model/model';
import { fromFragment, isShared, toFragment } from './share';

/** Node.js before 20 has no streams of this format. Browsers do: tests/browser/files.test.ts opens links in one. */
const withStreams = it.skipIf(Number(process.versions.node.split('.')[0]) < 20);

withStreams('a link gives back what was put into it', async () => {
  const model = pipeline();
  const placement = dealtOut(model);
  const fragment = await toFragment(model, placement);
  expect(fragment).toMatch(/^#m=[A-Za-z0-9_-]+$/);
  expect(isShared(fragment ?? '')).toBe(true);
  const back = await fromFragment(fragment ?? '');
  expect(JSON.parse(back.text)).toEqual(model);
  expect(back.placement).toEqual(placementFile(model, placement));
});

withStreams('a model that is too large for a link gets none', async () => {
  const model = large();
  expect(await toFragment(model, dealtOut(model))).toBeNull();
});

withStreams('a broken link is told as such', async () => {
  const fragment = (await toFragment(halo(3), dealtOut(halo(3)))) ?? '';
  await expect(fromFragment(fragment.slice(0, -9))).rejects.toThrow('The link is broken');
  await expect(fromFragment('#m=%%%')).rejects.toThrow('The link is broken');
});

it('examples are the same every time', () => {
  for (const example of EXAMPLES) expect(example.model()).toBe(example.model());
});

it('rows that are alike stand side by side', () => {
  const row = (...columns: number[]) => new Map(columns.map((column) => [column, 10]));
  const order = clustered([row(0, 1), row(5, 6), row(0, 1, 2), row(5, 6, 7)]);
  expect(Math.abs(order.indexOf(0) - order.indexOf(2))).toBe(1);
  expect(Math.abs(order.indexOf(1) - order.indexOf(3))).toBe(1);
  expect([...order].sort()).toEqual([0, 1, 2, 3]);
});
