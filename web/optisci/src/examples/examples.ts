/** Models to begin with. The first is the paper's; the others are made here, the same every time. */
import scheduler from '../../../../examples/placement/scheduler.json?raw';
import mappingA from '../../../../examples/placement/scheduler-a.json?raw';
import mappingB from '../../../../examples/placement/scheduler-b.json?raw';
import mappingC from '../../../../examples/placement/scheduler-c.json?raw';
import type { Access, Message, Model } from '../model/model';
import { random, shuffled } from './random';

/** What is drawn of a machine in the gallery. Of a tree: its leaves, and how many there are below each switch. */
export interface Sketch {
  shape: 'grid' | 'tree' | 'messages';
  columns: number;
  rows: number;
}

export interface Example {
  name: string;
  sketch: Sketch;
  /** What the machine is. */
  machine: string;
  /** What there is to be seen. */
  story: string;
  model: () => string;
  /** Placement files to begin with; the first is shown, all are kept to be compared. */
  placements?: string[];
}

const SCI = { kind: 'scipos' as const, mem_mhz: 100, pci_mhz: 33, bridge_mhz: 1000, ring_mhz: 500 };

/** Ranks of a halo exchange on a torus of their own shape, dealt out in the wrong order. */
export function halo(side: number): Model {
  const next = random(7);
  const ranks = side * side;
  const names = shuffled(ranks, next).map((rank) => `rank ${rank}`);
  const messages: Message[] = [];
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      for (const [dx, dy] of [[1, 0], [side - 1, 0], [0, 1], [0, side - 1]] as const) {
        const to = ((x + dx) % side) + side * ((y + dy) % side);
        messages.push({ from: `rank ${x + side * y}`, to: `rank ${to}`, count: 1000, size: 8192 });
      }
    }
  }
  return {
    id: `Halo exchange ${side} × ${side}`,
    version: 1,
    topology: { kind: 'torus', nodes: ranks, dims: [side, side], directed: false },
    cost_model: { kind: 'hop_bytes', ns_per_byte_hop: 0.25 },
    processes: names.map((id) => ({ id })),
    segments: [],
    accesses: [],
    messages,
    process_slots: new Array<number>(ranks).fill(1),
  };
}

/** Two sockets with four memory domains and a pool behind a switch, with costs that were measured somewhere. */
export function pool(): Model {
  const nodes = 6;
  const near = (a: number, b: number) => (a === b ? 95 : b >= 4 ? 310 : a >= 4 ? 320 : a >> 1 === b >> 1 ? 118 : 168);
  const perByte = (a: number, b: number) => (a === b ? 0.018 : b >= 4 || a >= 4 ? 0.075 : a >> 1 === b >> 1 ? 0.024 : 0.041);
  const matrix = (entry: (a: number, b: number) => number) =>
    Array.from({ length: nodes }, (_, a) => Array.from({ length: nodes }, (_, b) => entry(a, b)));
  const processes = ['parser', 'index', 'join 0', 'join 1', 'sorter', 'writer', 'logger', 'cache'];
  const segments: [string, number, boolean][] = [
    ['catalogue', 2, true],
    ['input', 24, false],
    ['hash 0', 12, false],
    ['hash 1', 12, false],
    ['runs', 20, false],
    ['output', 16, false],
    ['log', 4, false],
    ['cold rows', 40, false],
    ['dictionary', 3, true],
  ];
  const use = (process: string, segment: string, op: 'read' | 'write', count: number, size: number): Access => ({ process, segment, op, count, size });
  const accesses: Access[] = [
    use('parser', 'input', 'read', 400_000, 256),
    use('parser', 'dictionary', 'read', 900_000, 64),
    use('parser', 'hash 0', 'write', 120_000, 128),
    use('parser', 'hash 1', 'write', 120_000, 128),
    use('index', 'catalogue', 'read', 700_000, 64),
    use('index', 'cold rows', 'read', 9_000, 4096),
    use('join 0', 'hash 0', 'read', 650_000, 128),
    use('join 0', 'catalogue', 'read', 500_000, 64),
    use('join 0', 'runs', 'write', 160_000, 256),
    use('join 1', 'hash 1', 'read', 640_000, 128),
    use('join 1', 'catalogue', 'read', 500_000, 64),
    use('join 1', 'runs', 'write', 150_000, 256),
    use('sorter', 'runs', 'read', 320_000, 256),
    use('sorter', 'dictionary', 'read', 600_000, 64),
    use('sorter', 'output', 'write', 300_000, 256),
    use('writer', 'output', 'read', 300_000, 256),
    use('logger', 'log', 'write', 80_000, 512),
    use('cache', 'cold rows', 'write', 6_000, 4096),
    use('cache', 'catalogue', 'write', 400, 64),
  ];
  return {
    id: 'Two sockets and a memory pool',
    version: 1,
    topology: { kind: 'fat_tree', nodes, radices: [2, 3] },
    cost_model: {
      kind: 'matrix',
      read_ns: matrix(near),
      write_ns: matrix((a, b) => near(a, b) * 0.8),
      read_ns_per_byte: matrix(perByte),
      write_ns_per_byte: matrix((a, b) => perByte(a, b) * 1.3),
    },
    processes: processes.map((id) => ({ id })),
    segments: segments.map(([id, mib, replicable]) => ({ id, bytes: mib << 20, ...(replicable ? { replicable } : {}) })),
    accesses,
    process_slots: [2, 2, 2, 2, 0, 0],
    memory_bytes: [32, 32, 32, 32, 64, 64].map((mib) => mib << 20),
  };
}

/** Rings behind rings: producers and consumers in a pipeline on a small SCI torus. */
export function pipeline(): Model {
  const stages = ['read', 'filter', 'transform', 'reduce'];
  const processes = stages.flatMap((stage) => [0, 1, 2, 3].map((lane) => ({ id: `${stage} ${lane}` })));
  const segments: Model['segments'] = [];
  const accesses: Access[] = [];
  stages.slice(0, -1).forEach((stage, at) => {
    for (let lane = 0; lane < 4; lane++) {
      const id = `${stage.slice(0, 4)}→${(stages[at + 1] as string).slice(0, 3)} ${lane}`;
      segments.push({ id, bytes: 65_536 });
      accesses.push({ process: `${stage} ${lane}`, segment: id, op: 'write', count: 400 - 80 * at, size: 4096 });
      accesses.push({ process: `${stages[at + 1]} ${(lane + at) % 4}`, segment: id, op: 'read', count: 400 - 80 * at, size: 4096 });
    }
  });
  segments.push({ id: 'tables', bytes: 131_072, replicable: true }, { id: 'totals', bytes: 4096 });
  for (let lane = 0; lane < 4; lane++) {
    accesses.push({ process: `transform ${lane}`, segment: 'tables', op: 'read', count: 900, size: 512 });
    accesses.push({ process: `reduce ${lane}`, segment: 'totals', op: 'write', count: 120, size: 64 });
  }
  return {
    id: 'Pipeline on an SCI torus',
    version: 1,
    topology: { kind: 'torus', nodes: 16, dims: [4, 4], directed: true },
    cost_model: SCI,
    processes,
    segments,
    accesses,
    process_slots: new Array<number>(16).fill(1),
    segment_slots: new Array<number>(16).fill(3),
  };
}

/** A large program: 256 nodes, 5000 segments, 20 000 accesses, most of them by neighbours. */
export function large(nodes = 256, segmentCount = 5000, accessCount = 20_000): Model {
  const next = random(42);
  const side = Math.round(Math.sqrt(nodes));
  const segments = Array.from({ length: segmentCount }, (_, index) => ({ id: `segment ${index}`, bytes: 4096 << Math.floor(next() * 6) }));
  const accesses: Access[] = [];
  for (let index = 0; index < accessCount; index++) {
    const segment = index % segmentCount;
    const home = (segment * 7919) % nodes;
    const process = next() < 0.7 ? (home + Math.floor(next() * 5) * (next() < 0.5 ? 1 : side)) % nodes : Math.floor(next() * nodes);
    accesses.push({
      process: `process ${process}`,
      segment: `segment ${segment}`,
      op: next() < 0.65 ? 'read' : 'write',
      count: 1 + Math.floor(next() ** 3 * 400),
      size: 64 << Math.floor(next() * 6),
    });
  }
  return {
    id: `${nodes} nodes, ${segmentCount} segments`,
    version: 1,
    topology: { kind: 'torus', nodes, dims: [side, nodes / side], directed: false },
    cost_model: SCI,
    processes: Array.from({ length: nodes }, (_, index) => ({ id: `process ${index}` })),
    segments,
    accesses,
    process_slots: new Array<number>(nodes).fill(2),
  };
}

export const EXAMPLES: readonly Example[] = [
  {
    name: 'Distributed scheduler',
    sketch: { shape: 'grid', columns: 2, rows: 2 },
    machine: 'SCI ring of 4 nodes',
    story: 'The program of the OptiSCI paper: two masters read three queues that two slaves write. Its three mappings are kept as A, B and C: see them side by side under Compare.',
    model: () => scheduler,
    placements: [mappingA, mappingB, mappingC],
  },
  {
    name: 'Pipeline on an SCI torus',
    sketch: { shape: 'grid', columns: 4, rows: 4 },
    machine: '4 × 4 torus, one direction',
    story: 'Sixteen processes in four stages hand work on through segments. Everything was dealt out in turn. How much is there to gain?',
    model: () => JSON.stringify(pipeline()),
  },
  {
    name: 'Two sockets and a memory pool',
    sketch: { shape: 'tree', columns: 6, rows: 2 },
    machine: '4 NUMA domains, 2 pool devices',
    story: 'A measured cost matrix, memory that is short, and two segments that may have copies: try a copy of the catalogue on every node that reads it.',
    model: () => JSON.stringify(pool()),
  },
  {
    name: 'Halo exchange',
    sketch: { shape: 'messages', columns: 6, rows: 6 },
    machine: '6 × 6 torus, both directions',
    story: 'Messages only: 36 ranks that talk to four neighbours each, placed in the wrong order. Optimise finds the order back.',
    model: () => JSON.stringify(halo(6)),
  },
  {
    name: 'A large program',
    sketch: { shape: 'grid', columns: 24, rows: 10 },
    machine: '16 × 16 torus',
    story: '256 nodes, 5000 segments, 20 000 accesses. Drag any of them; search for “node 17” in the list.',
    model: () => JSON.stringify(large()),
  },
];
