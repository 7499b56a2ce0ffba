/** The matrix of processes and segments (or of processes and processes, for messages), and orders of its rows. */
import type { Relations } from '../scene/arrows';
import type { Model } from './model';

export interface Matrix {
  rows: number;
  columns: number;
  /** Bytes by row and column; below 0: written, else read. */
  byRow: Map<number, number>[];
  byColumn: Map<number, number>[];
  /** Cells that are read and written, as `row * columns + column`; their bytes are added up. */
  mixed: Set<number>;
  rowVolumes: Float64Array;
  columnVolumes: Float64Array;
  most: number;
}

export function matrixOf(relations: Relations, model: Model, isMessages: boolean): Matrix {
  const rows = model.processes.length;
  const columns = isMessages ? rows : model.segments.length;
  const matrix: Matrix = {
    rows,
    columns,
    byRow: Array.from({ length: rows }, () => new Map<number, number>()),
    byColumn: Array.from({ length: columns }, () => new Map<number, number>()),
    mixed: new Set(),
    rowVolumes: new Float64Array(rows),
    columnVolumes: new Float64Array(columns),
    most: 0,
  };
  const add = (row: number, column: number, volume: number, isWrite: boolean) => {
    const cells = matrix.byRow[row];
    if (!cells || volume === 0) return;
    const before = cells.get(column) ?? 0;
    if (before !== 0 && before < 0 !== isWrite) matrix.mixed.add(row * columns + column);
    const sign = before === 0 ? (isWrite ? -1 : 1) : Math.sign(before);
    const now = sign * (Math.abs(before) + volume);
    cells.set(column, now);
    matrix.byColumn[column]?.set(row, now);
    matrix.rowVolumes[row] = (matrix.rowVolumes[row] ?? 0) + volume;
    matrix.columnVolumes[column] = (matrix.columnVolumes[column] ?? 0) + volume;
    matrix.most = Math.max(matrix.most, Math.abs(now));
  };
  if (isMessages) for (const { from, to, message } of relations.messages) add(from, to, message.count * message.size, false);
  else {
    for (const { process, segment, access } of relations.accesses) {
      add(process, segment, access.count * access.size, access.op === 'write');
    }
  }
  return matrix;
}

/** Lists longer than this are ordered by where their weight lies: comparing all pairs would take too long. */
const MOST_COMPARED = 400;

/**
 * An order in which neighbours are alike: from the heaviest on, always the one that shares most with the last (cosine of
 * their entries). Long lists go by the mean place of their entries instead.
 */
export function clustered(entries: readonly Map<number, number>[]): number[] {
  const lengths = entries.map((cells) => Math.hypot(...[...cells.values()].map((value) => Math.sqrt(Math.abs(value)))));
  const all = entries.map((_, index) => index);
  if (entries.length > MOST_COMPARED) {
    const place = entries.map((cells) => {
      let [weight, sum] = [0, 0];
      for (const [index, value] of cells) {
        weight += Math.abs(value);
        sum += index * Math.abs(value);
      }
      return weight > 0 ? sum / weight : Infinity;
    });
    return all.sort((a, b) => (place[a] as number) - (place[b] as number) || a - b);
  }
  const likeness = (a: number, b: number) => {
    let shared = 0;
    const other = entries[b];
    for (const [index, value] of entries[a] ?? []) shared += Math.sqrt(Math.abs(value * (other?.get(index) ?? 0)));
    return shared / ((lengths[a] || 1) * (lengths[b] || 1));
  };
  const left = new Set(all);
  const order: number[] = [];
  let last = all.reduce((best, index) => ((lengths[index] ?? 0) > (lengths[best] ?? 0) ? index : best), 0);
  while (left.size > 0) {
    order.push(last);
    left.delete(last);
    let next = -1;
    let most = -1;
    for (const index of left) {
      const like = likeness(last, index);
      if (like > most) [next, most] = [index, like];
    }
    last = next;
  }
  return order;
}
