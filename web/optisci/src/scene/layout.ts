/**
 * Where the nodes, links and switches of a machine are drawn, in world units, from its topology alone.
 *
 * A small ring is an ellipse; longer rings run to and fro; a 2-D torus is a grid; further dimensions are slices side by
 * side; a small fat tree has its switches above the nodes, a larger one is drawn as boxes within boxes. Links that
 * would cross the picture (the way round a torus) end in a stub on each side.
 */
import type { FatTree, Topology, Torus } from '../model/model';

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** An end of a link: a node, or a switch `[level, index]`. */
export type End = number | readonly [level: number, index: number];
export interface Link {
  readonly from: End;
  readonly to: End;
}

/** How a directed link is drawn. */
export type Wire =
  | { kind: 'curve'; x1: number; y1: number; cx: number; cy: number; x2: number; y2: number }
  | { kind: 'stubs'; lines: { x1: number; y1: number; x2: number; y2: number }[] };

export interface Switch {
  label: string;
  box: Box;
}

export interface Layout {
  nodes: Box[];
  /** One for each directed link, in the engine's order; `null` for a link that leads back to its own node. */
  wires: (Wire | null)[];
  switches: Switch[];
  /** Titles of slices. */
  captions: { x: number; y: number; text: string }[];
  bounds: Box;
}

/** Between neighbours; large machines are drawn closer. */
const gapOf = (nodes: number): number => (nodes > 64 ? 44 : 72);
const MARGIN = 56;
const STUB = 24;
/** Two links between the same nodes keep this far from the line between them. */
const APART = 7;
const ROUND_RING = 24;
const DRAWN_TREE = 16;

const centre = (box: Box) => ({ x: box.x + box.width / 2, y: box.y + box.height / 2 });

/** Size of a node's box: room for what a node holds on average, within limits. */
function nodeSize(itemsPerNode: number, nodes: number): { width: number; height: number } {
  if (nodes > 64) return { width: 150, height: 116 };
  if (itemsPerNode <= 1) return { width: 124, height: 100 };
  if (itemsPerNode <= 3 && nodes > 4) return { width: 164, height: 154 };
  const columns = itemsPerNode <= 6 ? 3 : itemsPerNode <= 12 ? 4 : 5;
  return { width: 44 + columns * 56, height: columns === 3 ? 158 : columns === 4 ? 196 : 224 };
}

export function layout(topology: Topology, links: readonly Link[], items: number): Layout {
  const { width, height } = nodeSize(items / topology.nodes, topology.nodes);
  if (topology.kind === 'torus') return torusLayout(topology, links, width, height);
  if (topology.nodes > DRAWN_TREE) return nestedTree(topology, links, width, height);
  // A tree is wide as it is: its nodes are narrow and high.
  const rows = Math.min(Math.max(Math.ceil(items / topology.nodes / 2) + 1, 2), 5);
  return drawnTree(topology, links, 160, 40 + rows * 56);
}

function torusLayout({ dims, nodes, directed }: Torus, links: readonly Link[], width: number, height: number): Layout {
  const used = dims.filter((dim) => dim > 1);
  if (used.length <= 1) return ringLayout(nodes, directed === true, links, width, height);
  const gap = gapOf(nodes);
  const [columns = 1, rows = 1] = dims;
  const slice = columns * rows;
  const slices = nodes / slice;
  const across = Math.ceil(Math.sqrt((slices * rows * (height + gap)) / (columns * (width + gap)))) || 1;
  const sliceWidth = columns * (width + gap) + gap;
  const sliceHeight = rows * (height + gap) + gap;
  const boxes: Box[] = [];
  const captions: Layout['captions'] = [];
  for (let node = 0; node < nodes; node++) {
    const z = Math.floor(node / slice);
    const left = (z % across) * sliceWidth;
    const top = Math.floor(z / across) * sliceHeight;
    if (slices > 1 && node % slice === 0) captions.push({ x: left, y: top - STUB - 16, text: sliceName(z, dims) });
    boxes.push({
      x: left + (node % columns) * (width + gap),
      y: top + Math.floor((node % slice) / columns) * (height + gap),
      width,
      height,
    });
  }
  const wires = links.map(({ from, to }) => {
    if (typeof from !== 'number' || typeof to !== 'number') return null;
    return between(boxes, from, to, slice, width + gap, height + gap);
  });
  return { nodes: boxes, wires, switches: [], captions, bounds: boundsOf(boxes, STUB + MARGIN) };
}

function sliceName(index: number, dims: readonly number[]): string {
  const names = ['z', 'w', 'v', 'u'];
  return dims
    .slice(2)
    .map((dim, depth) => {
      const coordinate = index % dim;
      index = Math.floor(index / dim);
      return `${names[depth] ?? `d${depth + 2}`} = ${coordinate}`;
    })
    .join(', ');
}

/** A link of a grid: a line to the neighbour, else stubs that leave in its direction. */
function between(boxes: Box[], from: number, to: number, slice: number, stepX: number, stepY: number): Wire | null {
  const a = boxes[from];
  const b = boxes[to];
  if (!a || !b || from === to) return null;
  const [p, q] = [centre(a), centre(b)];
  const dx = q.x - p.x;
  const dy = q.y - p.y;
  const sameSlice = Math.floor(from / slice) === Math.floor(to / slice);
  if (!sameSlice) {
    // A link to another slice leaves through a corner: up to the next one, down to the one before.
    const ahead = to > from;
    const corner = (box: Box, out: boolean) =>
      out
        ? { x1: box.x + box.width - 10, y1: box.y, x2: box.x + box.width + 8, y2: box.y - 18 }
        : { x1: box.x - 8, y1: box.y + box.height + 18, x2: box.x + 10, y2: box.y + box.height };
    return { kind: 'stubs', lines: [corner(a, ahead), corner(b, !ahead)] };
  }
  const adjacent = Math.abs(dx) <= stepX * 1.01 && Math.abs(dy) <= stepY * 1.01;
  if (adjacent) return straight(a, b);
  // The way round: out at one side, in at the other.
  const side = (box: Box, right: number, down: number, out: boolean) => {
    const c = centre(box);
    const shift = out ? APART : -APART;
    const x = c.x + (right * box.width) / 2 + (right === 0 ? shift : 0);
    const y = c.y + (down * box.height) / 2 + (down === 0 ? shift : 0);
    const far = { x: x + right * STUB, y: y + down * STUB };
    return out ? { x1: x, y1: y, x2: far.x, y2: far.y } : { x1: far.x, y1: far.y, x2: x, y2: y };
  };
  const right = dx === 0 ? 0 : dx > 0 ? -1 : 1;
  const down = dy === 0 ? 0 : dy > 0 ? -1 : 1;
  return { kind: 'stubs', lines: [side(a, right, down, true), side(b, -right || 0, -down || 0, false)] };
}

/** A line between the edges of two boxes, beside the line of the opposite direction. */
function straight(a: Box, b: Box, bulge = 0): Wire {
  const [p, q] = [centre(a), centre(b)];
  const length = Math.hypot(q.x - p.x, q.y - p.y) || 1;
  const ux = (q.x - p.x) / length;
  const uy = (q.y - p.y) / length;
  const [nx, ny] = [-uy * APART, ux * APART];
  const middle = { x: (p.x + q.x) / 2 - uy * bulge, y: (p.y + q.y) / 2 + ux * bulge };
  const start = edge(a, middle.x - p.x, middle.y - p.y);
  const end = edge(b, middle.x - q.x, middle.y - q.y);
  return {
    kind: 'curve',
    x1: start.x + nx,
    y1: start.y + ny,
    cx: middle.x + nx,
    cy: middle.y + ny,
    x2: end.x + nx,
    y2: end.y + ny,
  };
}

/** Where a ray from the centre of a box leaves it, and a little further. */
function edge(box: Box, dx: number, dy: number): { x: number; y: number } {
  const c = centre(box);
  const t = Math.min(
    dx === 0 ? Infinity : box.width / 2 / Math.abs(dx),
    dy === 0 ? Infinity : box.height / 2 / Math.abs(dy),
  );
  const length = Math.hypot(dx, dy) || 1;
  return { x: c.x + dx * t + (dx / length) * 4, y: c.y + dy * t + (dy / length) * 4 };
}

function ringLayout(nodes: number, directed: boolean, links: readonly Link[], width: number, height: number): Layout {
  const gap = gapOf(nodes);
  const round = nodes <= ROUND_RING;
  const boxes: Box[] = [];
  if (round) {
    // Far enough apart that neighbours at the flat sides do not touch.
    const radiusX = nodes <= 2 ? (nodes - 1) * (width / 2 + gap) : Math.max(width + 60, ((width + 50) * nodes) / 5.6);
    const radiusY = nodes <= 2 ? 0 : Math.max(height + 34, ((height + 36) * nodes) / 6.2);
    const start = nodes === 2 ? -Math.PI : -Math.PI / 2 - (nodes === 4 ? Math.PI / 4 : 0);
    for (let node = 0; node < nodes; node++) {
      const angle = start + (node / nodes) * 2 * Math.PI;
      const x = Math.cos(angle) * radiusX;
      const y = Math.sin(angle) * radiusY;
      boxes.push({ x: x - width / 2, y: y - height / 2, width, height });
    }
  } else {
    const columns = Math.ceil(Math.sqrt((nodes * (height + gap)) / (width + gap)) * 1.25);
    for (let node = 0; node < nodes; node++) {
      const row = Math.floor(node / columns);
      const column = row % 2 === 0 ? node % columns : columns - 1 - (node % columns);
      boxes.push({ x: column * (width + gap), y: row * (height + gap), width, height });
    }
  }
  const wires = links.map(({ from, to }) => {
    if (typeof from !== 'number' || typeof to !== 'number' || from === to) return null;
    const a = boxes[from];
    const b = boxes[to];
    if (!a || !b) return null;
    if (round) {
      const clockwise = (from + 1) % nodes === to && !(nodes === 2 && from === 1);
      return straight(a, b, nodes <= 3 ? 0 : clockwise ? -26 : 26);
    }
    if (Math.abs(from - to) === 1) return straight(a, b);
    const stub = (node: number, out: boolean) => {
      const box = boxes[node] as Box;
      const y = box.y + box.height / 2 + (out ? APART : -APART) * (directed ? 0 : 1);
      const outside = box.x - STUB;
      return out ? { x1: box.x, y1: y, x2: outside, y2: y } : { x1: outside, y1: y, x2: box.x, y2: y };
    };
    return { kind: 'stubs' as const, lines: [stub(from, true), stub(to, false)] };
  });
  return { nodes: boxes, wires, switches: [], captions: [], bounds: boundsOf(boxes, MARGIN) };
}

function switchName(level: number, index: number): string {
  return `switch ${level}.${index}`;
}

/** Switches above nodes, as trees are drawn. */
function drawnTree({ nodes, radices }: FatTree, links: readonly Link[], width: number, height: number): Layout {
  const gap = 30;
  const rise = 120;
  const boxes: Box[] = [];
  for (let node = 0; node < nodes; node++) boxes.push({ x: node * (width + gap), y: 0, width, height });
  const levels: Box[][] = [boxes];
  const switches: Switch[] = [];
  radices.forEach((radix, depth) => {
    const below = levels[depth] ?? [];
    const here: Box[] = [];
    for (let index = 0; index * radix < below.length; index++) {
      const first = below[index * radix] as Box;
      const last = below[Math.min(below.length, (index + 1) * radix) - 1] as Box;
      const x = (first.x + last.x + last.width) / 2;
      const box = { x: x - 62, y: -(depth + 1) * rise, width: 124, height: 40 };
      here.push(box);
      switches.push({ label: switchName(depth + 1, index), box });
    }
    levels.push(here);
  });
  const at = (end: End): Box | undefined => (typeof end === 'number' ? boxes[end] : levels[end[0]]?.[end[1]]);
  const wires = links.map(({ from, to }): Wire | null => {
    const a = at(from);
    const b = at(to);
    if (!a || !b) return null;
    const up = a.y > b.y;
    const [low, high] = up ? [a, b] : [b, a];
    const shift = up ? -APART : APART;
    const bottom = { x: low.x + low.width / 2 + shift, y: low.y - 3 };
    const top = { x: high.x + high.width / 2 + shift + (low.x + low.width / 2 - high.x - high.width / 2) * 0.1, y: high.y + high.height + 3 };
    const bend = { x: bottom.x, y: top.y + (bottom.y - top.y) * 0.25 };
    return up
      ? { kind: 'curve', x1: bottom.x, y1: bottom.y, cx: bend.x, cy: bend.y, x2: top.x, y2: top.y }
      : { kind: 'curve', x1: top.x, y1: top.y, cx: bend.x, cy: bend.y, x2: bottom.x, y2: bottom.y };
  });
  const all = [...boxes, ...switches.map(({ box }) => box)];
  return { nodes: boxes, wires, switches, captions: [], bounds: boundsOf(all, MARGIN) };
}

/** Boxes within boxes: a switch is a frame around what is below it, a link a port at the top edge. */
function nestedTree({ nodes, radices }: FatTree, links: readonly Link[], width: number, height: number): Layout {
  const boxes: Box[] = new Array<Box>(nodes);
  const frames: Box[][] = radices.map(() => []);
  const header = 46;
  const place = (level: number, index: number, x: number, y: number): Box => {
    if (level === 0) return (boxes[index] = { x, y, width, height });
    const radix = radices[level - 1] ?? 1;
    const columns = Math.ceil(Math.sqrt(radix));
    const pad = level === 1 ? 22 : 30;
    let right = 0;
    let bottom = 0;
    let rowTop = y + header + pad;
    let left = x + pad;
    for (let child = 0; child < radix; child++) {
      if (child > 0 && child % columns === 0) {
        rowTop = bottom + pad + (level === 1 ? 14 : 0);
        left = x + pad;
      }
      const box = place(level - 1, index * radix + child, left, rowTop);
      left = box.x + box.width + pad;
      right = Math.max(right, box.x + box.width);
      bottom = Math.max(bottom, box.y + box.height);
    }
    const frame = { x, y, width: right + pad - x, height: bottom + pad - y };
    (frames[level - 1] as Box[])[index] = frame;
    return frame;
  };
  place(radices.length, 0, 0, 0);
  const switches = frames.flatMap((level, depth) =>
    level.map((box, index) => ({ label: switchName(depth + 1, index), box })),
  );
  switches.reverse();
  const at = (end: End): Box | undefined => (typeof end === 'number' ? boxes[end] : frames[end[0] - 1]?.[end[1]]);
  const wires = links.map(({ from, to }): Wire | null => {
    const a = at(from);
    const b = at(to);
    if (!a || !b) return null;
    const up = a.width * a.height < b.width * b.height;
    const low = up ? a : b;
    const x = low.x + low.width - (up ? 34 : 20);
    const [bottom, top] = [low.y + 2, low.y - 16];
    return { kind: 'stubs', lines: [up ? { x1: x, y1: bottom, x2: x, y2: top } : { x1: x, y1: top, x2: x, y2: bottom }] };
  });
  return { nodes: boxes, wires, switches, captions: [], bounds: boundsOf(switches.map(({ box }) => box), MARGIN) };
}

function boundsOf(boxes: readonly Box[], margin: number): Box {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const box of boxes) {
    left = Math.min(left, box.x);
    top = Math.min(top, box.y);
    right = Math.max(right, box.x + box.width);
    bottom = Math.max(bottom, box.y + box.height);
  }
  return { x: left - margin, y: top - margin, width: right - left + 2 * margin, height: bottom - top + 2 * margin };
}
