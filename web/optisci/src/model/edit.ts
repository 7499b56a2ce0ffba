/** Changes of a model. Each makes a new model and leaves the old one as it was. */
import type { Access, Item, ItemKind, Message, Model, Placement, Topology } from './model';

export interface Edited {
  model: Model;
  placement: Placement;
}

/** An id that nothing of its kind has: `process 3`. */
export function freshId(model: Model, kind: ItemKind): string {
  const taken = new Set((kind === 'process' ? model.processes : model.segments).map(({ id }) => id));
  let number = taken.size;
  while (taken.has(`${kind} ${number}`)) number++;
  return `${kind} ${number}`;
}

export function withProcess({ model, placement }: Edited, node: number): Edited {
  const process = { id: freshId(model, 'process') };
  return {
    model: { ...model, processes: [...model.processes, process] },
    placement: { ...placement, processes: [...placement.processes, node] },
  };
}

export function withSegment({ model, placement }: Edited, node: number, bytes: number): Edited {
  const segment = { id: freshId(model, 'segment'), bytes };
  return {
    model: { ...model, segments: [...model.segments, segment] },
    placement: { ...placement, segments: [...placement.segments, [node]] },
  };
}

/** Without items, their accesses and their messages. */
export function without({ model, placement }: Edited, items: readonly Item[]): Edited {
  const indicesOf = (kind: ItemKind) => new Set(items.filter((item) => item.kind === kind).map(({ index }) => index));
  const idsOf = (list: readonly { id: string }[], indices: Set<number>) => new Set(list.filter((_, index) => indices.has(index)).map(({ id }) => id));
  const left = <T>(list: readonly T[], indices: Set<number>): T[] => list.filter((_, index) => !indices.has(index));
  const [processes, segments] = [indicesOf('process'), indicesOf('segment')];
  const [processIds, segmentIds] = [idsOf(model.processes, processes), idsOf(model.segments, segments)];
  return {
    model: {
      ...model,
      processes: left(model.processes, processes),
      segments: left(model.segments, segments),
      accesses: model.accesses.filter(({ process, segment }) => !processIds.has(process) && !segmentIds.has(segment)),
      messages: (model.messages ?? []).filter(({ from, to }) => !processIds.has(from) && !processIds.has(to)),
    },
    placement: { processes: left(placement.processes, processes), segments: left(placement.segments, segments) },
  };
}

/** With another name, everywhere. */
export function renamed(model: Model, { kind, index }: Item, id: string): Model {
  const old = (kind === 'process' ? model.processes : model.segments)[index]?.id;
  const swap = (name: string) => (name === old ? id : name);
  if (kind === 'process') {
    return {
      ...model,
      processes: model.processes.map((process, each) => (each === index ? { ...process, id } : process)),
      accesses: model.accesses.map((access) => (access.process === old ? { ...access, process: id } : access)),
      messages: (model.messages ?? []).map((message) => ({ ...message, from: swap(message.from), to: swap(message.to) })),
    };
  }
  return {
    ...model,
    segments: model.segments.map((segment, each) => (each === index ? { ...segment, id } : segment)),
    accesses: model.accesses.map((access) => (access.segment === old ? { ...access, segment: id } : access)),
  };
}

/** With items pinned to nodes; `null` takes the pin out. */
export function pinned(model: Model, pins: readonly { item: Item; node: number | null }[]): Model {
  const changed = <T extends { pin?: number }>(list: readonly T[], kind: ItemKind): T[] => {
    const wanted = new Map(pins.filter(({ item }) => item.kind === kind).map(({ item, node }) => [item.index, node]));
    return list.map((entry, index) => {
      const node = wanted.get(index);
      if (node === undefined) return entry;
      const copy = { ...entry };
      if (node === null) delete copy.pin;
      else copy.pin = node;
      return copy;
    });
  };
  return { ...model, processes: changed(model.processes, 'process'), segments: changed(model.segments, 'segment') };
}

/** With other accesses of one process: what it reads and writes, as DAMIT asks for it. */
export function withAccesses(model: Model, process: string, accesses: readonly Access[]): Model {
  return { ...model, accesses: [...model.accesses.filter((access) => access.process !== process), ...accesses] };
}

/** With other messages of one process to others. */
export function withMessages(model: Model, process: string, messages: readonly Message[]): Model {
  return { ...model, messages: [...(model.messages ?? []).filter(({ from }) => from !== process), ...messages] };
}

export function withSegmentField(model: Model, index: number, field: { bytes?: number; replicable?: boolean }): Model {
  return { ...model, segments: model.segments.map((segment, each) => (each === index ? { ...segment, ...field } : segment)) };
}

/** A machine of some shape, with nothing on it, and the costs of the paper's SCI cluster. */
export function emptyModel(id: string, topology: Topology): Model {
  return {
    id,
    version: 1,
    topology,
    cost_model:
      topology.kind === 'torus'
        ? { kind: 'scipos', mem_mhz: 100, pci_mhz: 33, bridge_mhz: 1000, ring_mhz: 500 }
        : { kind: 'hop_bytes', ns_per_byte_hop: 0.5 },
    processes: [],
    segments: [],
    accesses: [],
  };
}

/**
 * What a model file may leave out, filled in: the page counts on it. Call it with files that the engine has taken.
 */
export function filledIn(file: Model): Model {
  const product = (sizes: readonly number[]) => sizes.reduce((a, b) => a * b, 1);
  const { topology } = file;
  const nodes = topology.kind === 'torus' ? product(topology.dims) : product(topology.radices);
  const model: Model = {
    ...file,
    topology: { ...topology, nodes },
    processes: file.processes ?? [],
    segments: (file.segments ?? []).map((segment) => ({ ...segment, bytes: segment.bytes ?? 0 })),
    accesses: file.accesses ?? [],
    messages: file.messages ?? [],
  };
  // `null` where a file means nothing is easier left out.
  const entries = [...model.processes, ...model.segments] as { pin?: number | null }[];
  for (const entry of entries) if (entry.pin === null) delete entry.pin;
  return model;
}
