/** Who reads and writes whom, as arrows between marks: data flows along them. A read is a whole line, a write a dashed one. */
import type { Access, Item, Message, Model } from '../model/model';
import type { Mark } from './packing';
import { arrowHead, type Painter } from './painter';
import type { Palette } from './palette';

/** Accesses and messages of each item, found once for each model. */
export interface Relations {
  accesses: { process: number; segment: number; access: Access }[];
  messages: { from: number; to: number; message: Message }[];
  byProcess: number[][];
  bySegment: number[][];
  messagesByProcess: number[][];
}

export function relationsOf(model: Model): Relations {
  const processes = new Map(model.processes.map(({ id }, index) => [id, index]));
  const segments = new Map(model.segments.map(({ id }, index) => [id, index]));
  const relations: Relations = {
    accesses: model.accesses.map((access) => ({
      process: processes.get(access.process) ?? 0,
      segment: segments.get(access.segment) ?? 0,
      access,
    })),
    messages: (model.messages ?? []).map((message) => ({
      from: processes.get(message.from) ?? 0,
      to: processes.get(message.to) ?? 0,
      message,
    })),
    byProcess: model.processes.map(() => []),
    bySegment: model.segments.map(() => []),
    messagesByProcess: model.processes.map(() => []),
  };
  relations.accesses.forEach(({ process, segment }, index) => {
    relations.byProcess[process]?.push(index);
    relations.bySegment[segment]?.push(index);
  });
  relations.messages.forEach(({ from, to }, index) => {
    relations.messagesByProcess[from]?.push(index);
    if (to !== from) relations.messagesByProcess[to]?.push(index);
  });
  return relations;
}

/** More arrows than this are a tangle that says nothing. */
const MOST = 400;
/** More arrows than this are too much work for every frame of a move unless they are as thin as they can be. */
const MOST_IN_HAND = 24;

export function paintArrows(
  painter: Painter,
  palette: Palette,
  relations: Relations,
  items: readonly Item[],
  markOf: (item: Item) => readonly Mark[],
  zoom: number,
  /** Thinner or thicker than usual; 'moving': painted again in every frame. */
  weight: number | 'moving' = 1,
) {
  const accesses = new Set<number>();
  const messages = new Set<number>();
  for (const { kind, index } of items) {
    for (const access of (kind === 'process' ? relations.byProcess : relations.bySegment)[index] ?? []) accesses.add(access);
    if (kind === 'process') for (const message of relations.messagesByProcess[index] ?? []) messages.add(message);
  }
  const volume = (count: number, size: number) => count * size;
  let most = 0;
  for (const index of accesses) {
    const { access } = relations.accesses[index] as Relations['accesses'][number];
    most = Math.max(most, volume(access.count, access.size));
  }
  for (const index of messages) {
    const { message } = relations.messages[index] as Relations['messages'][number];
    most = Math.max(most, volume(message.count, message.size));
  }
  const isFine = weight === 'moving' && accesses.size + messages.size > MOST_IN_HAND;
  const scale = (weight === 'moving' ? 1 : weight) / Math.min(zoom, 1);
  // Lines of one pixel take a fifth of the time of wider ones where no graphics processor helps.
  const width = (bytes: number) => (isFine ? 1 / zoom : (1.5 + 2.5 * Math.sqrt(bytes / (most || 1))) * Math.min(scale, 2.4));
  let drawn = 0;
  for (const index of accesses) {
    if (drawn++ > MOST) return;
    const { process, segment, access } = relations.accesses[index] as Relations['accesses'][number];
    const from = markOf({ kind: 'process', index: process })[0];
    if (!from) continue;
    for (const to of markOf({ kind: 'segment', index: segment })) {
      const [a, b] = access.op === 'read' ? [to, from] : [from, to];
      paintArrow(painter, a, b, access.op === 'read' ? palette.read : palette.write, width(volume(access.count, access.size)), access.op === 'write', scale);
    }
  }
  for (const index of messages) {
    if (drawn++ > MOST) return;
    const { from, to, message } = relations.messages[index] as Relations['messages'][number];
    const a = markOf({ kind: 'process', index: from })[0];
    const b = markOf({ kind: 'process', index: to })[0];
    if (a && b && a !== b) paintArrow(painter, a, b, palette.message, width(volume(message.count, message.size)), false, scale);
  }
}

function paintArrow(painter: Painter, a: Mark, b: Mark, colour: string, width: number, dashed: boolean, scale: number) {
  const dx = b.x - a.x;
  const dy = b.y - a.y;
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length];
  // Bowed to one side, so that the way there and the way back are two lines.
  const bow = Math.min(length * 0.16, 46);
  const [cx, cy] = [(a.x + b.x) / 2 - uy * bow, (a.y + b.y) / 2 + ux * bow];
  const leave = (mark: Mark) => {
    const toward = Math.hypot(cx - mark.x, cy - mark.y) || 1;
    const gap = mark.size / 2 + 4;
    return { x: mark.x + ((cx - mark.x) / toward) * gap, y: mark.y + ((cy - mark.y) / toward) * gap };
  };
  const [start, end] = [leave(a), leave(b)];
  const stroke = { colour, width, dash: dashed ? [7 * Math.min(scale, 2), 5 * Math.min(scale, 2)] : [] };
  painter.line(start.x, start.y, end.x, end.y, stroke, cx, cy);
  arrowHead(painter, cx, cy, end.x, end.y, 6 * Math.min(scale, 2.4) + width * 1.4, colour);
}
