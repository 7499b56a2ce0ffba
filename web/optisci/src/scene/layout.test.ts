import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { Engine } from '../engine/engine';
import { emptyModel } from '../model/edit';
import type { Topology } from '../model/model';
import { layout } from './layout';
import { largestCell, pack } from './packing';
import { inkOn, LIGHT, DARK, tint } from './palette';
import { SvgPainter } from './painter';

const TOPOLOGIES: Topology[] = [
  { kind: 'torus', nodes: 2, dims: [2], directed: false },
  { kind: 'torus', nodes: 4, dims: [4], directed: true },
  { kind: 'torus', nodes: 9, dims: [9], directed: false },
  { kind: 'torus', nodes: 60, dims: [60], directed: true },
  { kind: 'torus', nodes: 12, dims: [4, 3], directed: true },
  { kind: 'torus', nodes: 24, dims: [2, 3, 4], directed: false },
  { kind: 'fat_tree', nodes: 6, radices: [2, 3] },
  { kind: 'fat_tree', nodes: 64, radices: [8, 4, 2] },
];

describe('a layout', async () => {
  const wasm = readFileSync(fileURLToPath(new URL('../engine/optisci.wasm', import.meta.url)));
  const engine = await Engine.start(await WebAssembly.compile(wasm));
  for (const topology of TOPOLOGIES) {
    const name = `${topology.kind} ${(topology.kind === 'torus' ? topology.dims : topology.radices).join(' × ')}`;
    it(`of a ${name} has a box for each node, apart from the others, and a wire for each link`, () => {
      const { nodes, links } = engine.open(JSON.stringify(emptyModel('', topology)));
      const { nodes: boxes, wires, bounds } = layout(topology, links, nodes * 3);
      expect(boxes.length).toBe(nodes);
      boxes.forEach((a, first) => {
        expect(a.x >= bounds.x && a.y >= bounds.y && a.x + a.width <= bounds.x + bounds.width && a.y + a.height <= bounds.y + bounds.height).toBe(true);
        boxes.slice(first + 1).forEach((b) => {
          const isApart = a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
          expect(isApart, `${JSON.stringify(a)} and ${JSON.stringify(b)}`).toBe(true);
        });
      });
      expect(wires.length).toBe(links.length);
      links.forEach(({ from, to }, link) => expect(wires[link] === null).toBe(from === to));
    });
  }

  it('keeps all marks inside their boxes, however many there are', () => {
    const topology: Topology = { kind: 'torus', nodes: 4, dims: [4], directed: true };
    const { links } = engine.open(JSON.stringify(emptyModel('', topology)));
    for (const count of [1, 3, 7, 40, 900]) {
      const { nodes } = layout(topology, links, count);
      const marks = pack(nodes, { processes: [0, 0, 1], segments: Array.from({ length: count }, () => [0, 2]) });
      expect(marks.flat().length).toBe(3 + 2 * count);
      for (const { x, y, size, node } of marks.flat()) {
        const box = nodes[node];
        expect(box && x - size / 2 >= box.x && x + size / 2 <= box.x + box.width && y - size / 2 >= box.y && y + size / 2 <= box.y + box.height).toBe(true);
      }
    }
  });
});

it('cells are as large as they can be', () => {
  expect(largestCell(4, 80, 80)).toEqual({ cell: 40, columns: 2 });
  expect(largestCell(2, 200, 10).cell).toBe(10);
});

it('text on any tint can be read', () => {
  const channel = (c: number) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]: readonly number[]) => 0.2126 * channel(r ?? 0) + 0.7152 * channel(g ?? 0) + 0.0722 * channel(b ?? 0);
  for (const palette of [LIGHT, DARK]) {
    for (let step = -10; step <= 10; step++) {
      const ground = tint(palette, step / 10);
      const ink = inkOn(ground) === '#ffffff' ? 1 : luminance([16, 22, 31]);
      const [high, low] = [Math.max(ink, luminance(ground)), Math.min(ink, luminance(ground))];
      expect((high + 0.05) / (low + 0.05)).toBeGreaterThanOrEqual(4.5);
    }
  }
});

it('ids in an SVG file are text, whatever they contain', () => {
  const painter = new SvgPainter();
  painter.text(0, 0, '<script>&"', { size: 10, colour: '#000' });
  const file = painter.file(0, 0, 10, 10, '#fff', 'a < b');
  expect(file).toContain('&lt;script&gt;&amp;&quot;</text>');
  expect(file).not.toContain('<script>');
});
