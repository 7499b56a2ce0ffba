/**
 * The picture of a machine and a placement, as painter calls: first the machine (links with their heat, node boxes with
 * their tint), then what stands on it, then what is in the hand. The layers are painted apart so that a drag repaints
 * only what it changes.
 */
import type { Evaluation } from '../engine/engine';
import { OBSTACLES } from '../engine/engine';
import { type Item, type Model, itemKey } from '../model/model';
import { amount, bytes, change as changeText } from '../model/numbers';
import type { Box, Layout, Wire } from './layout';
import { TITLE, type Mark } from './packing';
import { arrowHead, fitted, LETTER, type Line, type Painter } from './painter';
import { css, inkOn, type Palette, ramp, shade, tint } from './palette';

/** A drag, as it is drawn. */
export interface Tints {
  costs: Float64Array;
  obstacles: Float64Array;
  swaps: Float64Array;
  now: number;
  /** The largest change of the trial: the scale does not move while the hand does. */
  spread: number;
  best: number;
  unit: 'ns' | 'bytes';
}

export interface Scene {
  model: Model;
  layout: Layout;
  marks: readonly (readonly Mark[])[];
  evaluation: Evaluation;
  palette: Palette;
  /** Bytes that have the last colour of the link scale. */
  linkScale: number;
  /** Cost that has the last colour of the segment scale, ns. */
  segmentScale: number;
  tints: Tints | null;
  selected: ReadonlySet<string>;
  focused: Item | null;
  /** Pixels per world unit. */
  zoom: number;
  /** What is in sight, world units. */
  sight: Box;
}

const meets = (a: Box, b: Box) =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

/** The whole machine. */
export function paintMachine(painter: Painter, scene: Scene) {
  paintLinks(painter, scene);
  paintBoxes(painter, scene);
  paintBusiest(painter, scene);
}

/** The boxes of the nodes, with their tints if something is in the hand. */
export function paintBoxes(painter: Painter, scene: Scene) {
  scene.layout.nodes.forEach((box, node) => {
    if (meets(box, scene.sight)) paintNode(painter, scene, box, node);
  });
}

/** Steps of the heat scale: links of one step are painted at once. */
const STEPS = 40;

/** Links with their heat, and the switches that they lead to. */
export function paintLinks(painter: Painter, scene: Scene) {
  const { layout, evaluation, palette, linkScale, zoom } = scene;
  for (const { label, box } of layout.switches) {
    if (box.width <= 130) {
      painter.rect(box.x, box.y, box.width, box.height, 20, palette.frame, { colour: palette.boxEdge, width: 1.5 });
      painter.text(box.x + box.width / 2, box.y + box.height / 2, label, { size: 13, colour: palette.soft, align: 'center' });
    } else {
      painter.rect(box.x, box.y, box.width, box.height, 18, palette.frame, { colour: palette.boxEdge, width: 1.5 });
      painter.text(box.x + 18, box.y + 26, label, { size: Math.min(15 / Math.min(zoom, 1), 30), colour: palette.soft });
    }
  }
  for (const { x, y, text } of layout.captions) {
    painter.text(x, y, text, { size: Math.min(16 / Math.min(zoom, 1), 34), colour: palette.soft, weight: 600 });
  }
  const steps: Wire[][] = Array.from({ length: STEPS + 2 }, () => []);
  layout.wires.forEach((wire, link) => {
    if (!wire) return;
    const heat = linkScale > 0 ? (evaluation.links[link] ?? 0) / linkScale : 0;
    // The last step is for what lies beyond the scale; an idle link is none that carries little.
    const step = heat > 1.0001 ? STEPS + 1 : heat === 0 ? 0 : Math.max(1, Math.round(heat * STEPS));
    (steps[step] as Wire[]).push(wire);
  });
  const heads = zoom > 0.42;
  // Busy links over idle ones.
  steps.forEach((wires, step) => {
    if (wires.length === 0) return;
    const heat = Math.min(step / STEPS, 1);
    const colour = css(ramp(palette.link, heat));
    const width = (step === 0 ? 1.25 : 2 + 6 * heat) * Math.min(1 / Math.min(zoom, 1), 1.6);
    const head = heads ? 7 + width * 1.1 : 0;
    const lines = wires.flatMap((wire) => linesOf(wire, head));
    painter.lines(lines, { colour, width });
    // Beyond the scale: said by a second, dark line inside.
    if (step > STEPS) painter.lines(lines, { colour: palette.ink, width: Math.max(1.2, width * 0.28) });
    if (!heads) return;
    for (const wire of wires) {
      const last = wire.kind === 'stubs' ? wire.lines.at(-1) : undefined;
      if (wire.kind === 'curve') arrowHead(painter, wire.cx, wire.cy, wire.x2, wire.y2, head, colour);
      else if (last) arrowHead(painter, last.x1, last.y1, last.x2, last.y2, head, colour);
    }
  });
}

/** Marks the link with the most bytes: by their number, or by a ring where there is no room for one. */
export function paintBusiest(painter: Painter, { layout, evaluation, palette, zoom }: Scene) {
  let busiest = -1;
  evaluation.links.forEach((load, link) => {
    if (layout.wires[link] && load > (evaluation.links[busiest] ?? 0)) busiest = link;
  });
  const wire = layout.wires[busiest];
  if (!wire) return;
  const { x, y } = middle(wire);
  const scale = 1 / Math.min(zoom, 1);
  if (zoom < 0.5) {
    painter.circle(x, y, 7 * scale, null, { colour: palette.ink, width: 2 * scale });
    return;
  }
  const text = bytes(evaluation.links[busiest] ?? 0);
  const size = 11 * scale;
  const width = text.length * size * LETTER + 14 * scale;
  painter.rect(x - width / 2, y - 9 * scale, width, 18 * scale, 9 * scale, palette.box, { colour: css(ramp(palette.link, 0.8)), width: 1.5 * scale });
  painter.text(x, y, text, { size, colour: palette.ink, weight: 600, align: 'center' });
}

/** A point halfway along a wire; of a wire in two stubs, halfway along the one that it leaves by. */
function middle(wire: Wire): { x: number; y: number } {
  if (wire.kind === 'curve') return { x: (wire.x1 + 2 * wire.cx + wire.x2) / 4, y: (wire.y1 + 2 * wire.cy + wire.y2) / 4 };
  const [stub] = wire.lines;
  return stub ? { x: (stub.x1 + stub.x2) / 2, y: (stub.y1 + stub.y2) / 2 } : { x: 0, y: 0 };
}

/** The lines of a wire, short of its arrow head. */
function linesOf(wire: Wire, head: number): Line[] {
  if (wire.kind === 'stubs') return wire.lines;
  const { x1, y1, cx, cy, x2, y2 } = wire;
  const length = Math.hypot(x2 - cx, y2 - cy) || 1;
  const back = Math.min(head * 0.8, length * 0.5) / length;
  return [{ x1, y1, cx, cy, x2: x2 - (x2 - cx) * back, y2: y2 - (y2 - cy) * back }];
}

/** The node under the hand. */
export function paintTarget(painter: Painter, { layout, palette, tints, zoom }: Scene, node: number) {
  const box = layout.nodes[node];
  if (!box) return;
  const colour = tints?.obstacles[node] ? palette.soft : palette.accent;
  painter.rect(box.x, box.y, box.width, box.height, 14, null, { colour, width: 4 / Math.min(zoom, 1) });
}

function paintNode(painter: Painter, { model, palette, tints, zoom, layout }: Scene, box: Box, node: number) {
  const obstacle = tints ? (tints.obstacles[node] ?? 0) : 0;
  const cost = tints ? (tints.costs[node] ?? 0) : 0;
  const change = tints && tints.spread > 0 ? (cost - tints.now) / tints.spread : 0;
  const fill = tints && obstacle === 0 ? tint(palette, change) : palette.boxRgb;
  const isBest = tints?.best === node;
  const edge = isBest ? { colour: palette.ink, width: 2.5 / Math.min(zoom, 1) } : { colour: palette.boxEdge, width: 1.5 };
  painter.rect(box.x, box.y, box.width, box.height, 14, css(fill), edge);
  if (obstacle) painter.hatch(box.x + 3, box.y + 3, box.width - 6, box.height - 6, palette.hatch);
  const size = Math.min(13 / Math.min(zoom, 1), 24);
  if (size * zoom < 5) return;
  const ink = tints && !obstacle ? inkOn(fill) : palette.ink;
  const middle = box.y + TITLE / 2 + 2;
  const many = layout.nodes.length > 64 || zoom < 0.56;
  const right = box.x + box.width - 12;
  const names = many ? [String(node)] : [`Node ${node}`, String(node)];
  // A number that was cut says something else: shorter words are taken instead.
  const fits = (name: string, label: string) => (name.length + label.length + 2) * size * LETTER <= box.width - 20;
  const [shortest = ''] = names.slice(-1);
  let name = names[0] ?? '';
  if (tints) {
    const labels = obstacle ? [OBSTACLES[obstacle] ?? '', '✕'] : tintLabels(tints, cost, node, many);
    const pairs = labels.flatMap((label) => names.map((each) => [each, label] as const));
    const [shown, label] = pairs.find((pair) => fits(...pair)) ?? [shortest, ''];
    name = shown;
    painter.text(right, middle, label, { size, colour: obstacle ? palette.ink : ink, weight: isBest ? 750 : 600, align: 'right' });
  } else if (!many) {
    const memory = model.memory_bytes?.[node];
    if (memory !== undefined && memory !== null) {
      const text = amount(memory, 'bytes').replace(/\.0+ /, ' ');
      name = names.find((each) => fits(each, text)) ?? name;
      painter.text(right, middle, fits(name, text) ? text : '', { size: size * 0.88, colour: palette.soft, align: 'right' });
    }
  }
  painter.text(box.x + 12, middle, name, { size, colour: tints ? ink : palette.soft, weight: 600 });
}

/** What the title of a node may say of a trial, the longest first. */
function tintLabels({ now, unit, best, swaps }: Tints, cost: number, node: number, many: boolean): string[] {
  const percent = changeText(now, cost).replace('no change', '±0');
  const marks = `${best === node ? '★ ' : ''}${(swaps[node] ?? -1) >= 0 ? '⇄ ' : ''}`;
  return many ? [`${marks}${percent}`, percent] : [`${marks}${amount(cost, unit)}  ${percent}`, `${marks}${percent}`, percent];
}

/** Processes and segments on their nodes. */
export function paintItems(painter: Painter, scene: Scene, hidden: ReadonlySet<string>) {
  const { layout, marks, zoom } = scene;
  const most = marks.reduce((sum, here) => Math.max(sum, here.length), 1);
  layout.nodes.forEach((box, node) => {
    const here = marks[node];
    if (!here?.length || !meets(box, scene.sight)) return;
    const size = (here[0]?.size ?? 0) * zoom;
    if (size < 2.2) paintDensity(painter, scene.palette, box, here, most);
    else if (size < PLAIN) paintPlain(painter, scene, here, hidden);
    else for (const mark of here) paintMark(painter, scene, mark, hidden.has(itemKey(mark.item)) ? 0.25 : 1);
  });
}

/** Marks of fewer pixels are only a circle or a square. */
const PLAIN = 9;

/** Small marks: there may be thousands. */
function paintPlain(painter: Painter, scene: Scene, here: readonly Mark[], hidden: ReadonlySet<string>) {
  const { palette, evaluation, segmentScale, focused } = scene;
  const areSpecial = hidden.size > 0 || scene.selected.size > 0 || focused !== null;
  for (const mark of here) {
    const { item, x, y, size } = mark;
    if (areSpecial) {
      const key = itemKey(item);
      if (hidden.has(key) || scene.selected.has(key) || (focused !== null && itemKey(focused) === key)) {
        paintMark(painter, scene, mark, hidden.has(key) ? 0.25 : 1);
        continue;
      }
    }
    if (item.kind === 'process') painter.circle(x, y, size / 2, palette.process);
    else {
      const heat = segmentScale > 0 ? (evaluation.segments[item.index] ?? 0) / segmentScale : 0;
      painter.rect(x - size / 2, y - size / 2, size, size, 0, shade(palette.segment, heat));
    }
  }
}

/** Too many, too small: two bars say how many processes and segments there are. */
function paintDensity(painter: Painter, palette: Palette, box: Box, here: readonly Mark[], most: number) {
  const processes = here.filter(({ item }) => item.kind === 'process').length;
  const width = box.width - 24;
  const bar = (y: number, count: number, colour: string) =>
    painter.rect(box.x + 12, y, Math.max((count > 0 ? 3 : 0), (width * count) / most), 16, 0, colour);
  bar(box.y + box.height * 0.42, processes, palette.process);
  bar(box.y + box.height * 0.66, here.length - processes, css(ramp(palette.segment, 0.55)));
}

export function paintMark(painter: Painter, scene: Scene, mark: Mark, strength: number) {
  const { model, palette, evaluation, segmentScale, zoom } = scene;
  const { item, x, y, size, room } = mark;
  const key = itemKey(item);
  const isSelected = scene.selected.has(key);
  const isFocused = scene.focused !== null && itemKey(scene.focused) === key;
  const half = size / 2;
  const entry = item.kind === 'process' ? model.processes[item.index] : model.segments[item.index];
  if (!entry) return;
  const faded = strength < 1;
  const plain = size * zoom < PLAIN;
  if (item.kind === 'process') {
    painter.circle(x, y, half, faded ? null : palette.process, faded ? { colour: palette.process, width: 1.5, dash: [3, 3] } : undefined);
  } else {
    const heat = segmentScale > 0 ? (evaluation.segments[item.index] ?? 0) / segmentScale : 0;
    const fill = shade(palette.segment, heat);
    const edge = { colour: palette.ink, width: 1, dash: faded ? [3, 3] : [] };
    if (plain) painter.rect(x - half, y - half, size, size, 0, faded ? palette.faint : fill);
    else painter.rect(x - half, y - half, size, size, Math.min(6, size * 0.18), faded ? null : fill, edge);
  }
  if (isSelected || isFocused) {
    const ring = half + Math.max(3, 2.5 / zoom);
    const stroke = { colour: palette.accent, width: Math.max(2.5, 2 / zoom), dash: isSelected ? [] : [4 / zoom, 3 / zoom] };
    if (item.kind === 'process') painter.circle(x, y, ring, null, stroke);
    else painter.rect(x - ring, y - ring, ring * 2, ring * 2, 7, null, stroke);
  }
  if (plain || faded) return;
  if (entry.pin !== undefined) paintPin(painter, x + half * 0.72, y - half * 0.72, Math.max(4.5, size * 0.17), palette);
  if (room > 0) {
    // As large on the screen as letters should be, unless the id is too long or the next row too near.
    const wanted = Math.min(11.5 / Math.min(zoom, 1), 19);
    const letters = Math.min(wanted, Math.max(11.5, room / (entry.id.length * LETTER)));
    painter.text(x, y + half + letters * 0.92, fitted(entry.id, letters, room), { size: letters, colour: inkAt(scene, mark.node), align: 'center', weight: 500 });
  } else if (size * zoom > 24) {
    const dark = item.kind === 'process' ? palette.onProcess : inkOn(ramp(palette.segment, heatOf(scene, item)));
    painter.text(x, y, fitted(entry.id, size * 0.3, size * 0.92), { size: size * 0.3, colour: dark, align: 'center' });
  }
}

const heatOf = ({ evaluation, segmentScale }: Scene, item: Item): number =>
  segmentScale > 0 ? (evaluation.segments[item.index] ?? 0) / segmentScale : 0;

function inkAt({ tints, palette }: Scene, node: number): string {
  if (!tints || tints.obstacles[node] || tints.spread === 0) return palette.ink;
  return inkOn(tint(palette, ((tints.costs[node] ?? 0) - tints.now) / tints.spread));
}

/** A pin's head and needle. */
function paintPin(painter: Painter, x: number, y: number, radius: number, palette: Palette) {
  painter.line(x, y, x - radius * 1.1, y + radius * 1.5, { colour: palette.ink, width: radius * 0.4 });
  painter.circle(x, y, radius, palette.accent, { colour: palette.box, width: radius * 0.35 });
}
