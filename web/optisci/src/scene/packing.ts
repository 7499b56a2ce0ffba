/** Where the processes and segments of each node stand inside its box: rows of cells, as large as they may be. */
import type { Item, Placement } from '../model/model';
import type { Box } from './layout';

/** An item, or one copy of a segment. */
export interface Mark {
  readonly item: Item;
  readonly node: number;
  /** Centre, world units. */
  readonly x: number;
  readonly y: number;
  /** Side of the square or diameter of the circle, world units. */
  readonly size: number;
  /** Width that there is for the id below it, world units; 0 if there is none. */
  readonly room: number;
}

/** Space for the title of a node. */
export const TITLE = 30;
const PAD = 8;
const LARGEST = 34;

/** The marks of each node, processes first. */
export function pack(nodes: readonly Box[], placement: Placement): Mark[][] {
  const here: Item[][] = nodes.map(() => []);
  placement.processes.forEach((node, index) => here[node]?.push({ kind: 'process', index }));
  placement.segments.forEach((copies, index) => {
    for (const node of copies) here[node]?.push({ kind: 'segment', index });
  });
  return here.map((items, node) => packNode(items, node, nodes[node] as Box));
}

function packNode(items: readonly Item[], node: number, box: Box): Mark[] {
  const width = box.width - 2 * PAD;
  const height = box.height - TITLE - PAD;
  const roomyColumns = Math.max(1, Math.floor(width / 58));
  const roomyRows = Math.floor(height / 54);
  const processes = items.filter(({ kind }) => kind === 'process').length;
  const rowsNeeded = Math.ceil(processes / roomyColumns) + Math.ceil((items.length - processes) / roomyColumns);
  if (rowsNeeded <= roomyRows) {
    // Circles and squares in rows of their own read best.
    const rows: Item[][] = [];
    for (const group of [items.slice(0, processes), items.slice(processes)]) {
      for (let start = 0; start < group.length; start += roomyColumns) rows.push(group.slice(start, start + roomyColumns));
    }
    const rowHeight = Math.min(62, height / Math.max(rows.length, 1));
    return rows.flatMap((row, number) =>
      row.map((item, column) => ({
        item,
        node,
        x: box.x + box.width / 2 + (column - (row.length - 1) / 2) * (width / row.length),
        y: box.y + TITLE + (height - rowHeight * rows.length) / 2 + rowHeight * (number + 0.5) - 8,
        size: Math.min(LARGEST, rowHeight - 26),
        room: width / Math.max(row.length, 1) - 4,
      })),
    );
  }
  const { cell, columns } = largestCell(items.length, width, height);
  const size = Math.min(LARGEST, cell * 0.78);
  return items.map((item, position) => ({
    item,
    node,
    x: box.x + PAD + cell * ((position % columns) + 0.5) + (width - columns * cell) / 2,
    y: box.y + TITLE + cell * (Math.floor(position / columns) + 0.5),
    size,
    room: 0,
  }));
}

/** The largest square cell of which `count` fit into a rectangle. */
export function largestCell(count: number, width: number, height: number): { cell: number; columns: number } {
  let best = { cell: 0, columns: 1 };
  for (let columns = 1; columns <= count; columns++) {
    const cell = Math.min(width / columns, height / Math.ceil(count / columns), 44);
    if (cell > best.cell) best = { cell, columns };
    if (width / columns < best.cell) break;
  }
  return best;
}
