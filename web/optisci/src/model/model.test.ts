import { describe, expect, it } from 'vitest';
import { pipeline, pool } from '../examples/examples';
import { emptyModel, filledIn, pinned, renamed, without, withAccesses, withProcess, withSegment } from './edit';
import { dealtOut, differences, type Model, moved, placementFile, placementFromFile, withCopies } from './model';

describe('a placement', () => {
  it('that is dealt out obeys limits and pins', () => {
    const model = pinned(pool(), [{ item: { kind: 'segment', index: 2 }, node: 5 }]);
    const placement = dealtOut(model);
    expect(placement.segments[2]).toEqual([5]);
    const processes = new Array<number>(6).fill(0);
    const memory = new Array<number>(6).fill(0);
    placement.processes.forEach((node) => (processes[node] = (processes[node] ?? 0) + 1));
    placement.segments.forEach((nodes, index) => {
      for (const node of nodes) memory[node] = (memory[node] ?? 0) + (model.segments[index]?.bytes ?? 0);
    });
    processes.forEach((used, node) => expect(used).toBeLessThanOrEqual(model.process_slots?.[node] ?? 0));
    memory.forEach((used, node) => expect(used).toBeLessThanOrEqual(model.memory_bytes?.[node] ?? 0));
  });

  it('that is dealt out goes where nothing is limited', () => {
    const empty = { model: emptyModel('limits', { kind: 'torus', nodes: 3, dims: [3] }), placement: { processes: [], segments: [] } };
    const { model } = withSegment(withProcess(withProcess(empty, 0), 0), 0, 10);
    const limits = { process_slots: [0, null, 0], segment_slots: [1, null, 1], memory_bytes: [0, 9, null] };
    expect(dealtOut({ ...model, ...limits })).toEqual({ processes: [1, 1], segments: [[2]] });
  });

  it('is the same after it was a file, whatever things are called', () => {
    const model = renamed(renamed(pool(), { kind: 'process', index: 0 }, '__proto__'), { kind: 'segment', index: 1 }, '__proto__');
    const placement = dealtOut(model);
    expect(placementFromFile(model, JSON.parse(JSON.stringify(placementFile(model, placement))))).toEqual(placement);
  });

  it('is the same after it was a file', () => {
    const model = pool();
    const placement = withCopies(dealtOut(model), 0, [3, 1]);
    expect(placementFromFile(model, JSON.parse(JSON.stringify(placementFile(model, placement))))).toEqual(placement);
  });

  it('that is broken is refused with the path', () => {
    const model = pool();
    const file = placementFile(model, dealtOut(model));
    const broken = (change: (file: { processes: Record<string, unknown>; segments: Record<string, unknown> }) => void) => {
      const copy = structuredClone(file);
      change(copy);
      return () => placementFromFile(model, copy);
    };
    expect(broken((copy) => (copy.processes['parser'] = 6))).toThrow('processes.parser: expected a node from 0 to 5, found 6');
    expect(broken((copy) => delete copy.segments['log'])).toThrow('segments.log: expected a node');
    expect(broken((copy) => (copy.segments['log'] = [1, 'a']))).toThrow('segments.log[1]');
    expect(broken((copy) => (copy.segments['log'] = []))).toThrow('at least one node');
    expect(broken((copy) => (copy.segments['nobody'] = 1))).toThrow('segments.nobody: the model has no such id');
    expect(() => placementFromFile(model, [])).toThrow('processes: expected an object');
  });

  it('differs from another in what was moved', () => {
    const start = dealtOut(pool());
    expect(differences(start, moved(start, { kind: 'segment', index: 3 }, 5))).toEqual([{ kind: 'segment', index: 3 }]);
    expect(differences(start, moved(start, { kind: 'process', index: 1 }, 1))).toEqual([]);
    expect(differences(start, withCopies(start, 0, [0, 1]))).toEqual([{ kind: 'segment', index: 0 }]);
  });
});

describe('an edit', () => {
  const model = pipeline();
  const state = { model, placement: dealtOut(model) };

  it('leaves the old model as it was', () => {
    const before = structuredClone(model);
    withProcess(state, 3);
    withSegment(state, 3, 10);
    without(state, [{ kind: 'process', index: 0 }]);
    renamed(model, { kind: 'segment', index: 0 }, 'x');
    pinned(model, [{ item: { kind: 'process', index: 0 }, node: 2 }]);
    withAccesses(model, 'read 0', []);
    expect(model).toEqual(before);
  });

  it('that removes takes accesses and messages along', () => {
    const messages = [0, 1, 2].map((index) => ({ from: model.processes[index]?.id ?? '', to: model.processes[1]?.id ?? '', count: 1, size: 8 }));
    const edited = without({ ...state, model: { ...model, messages } }, [
      { kind: 'segment', index: 2 },
      { kind: 'process', index: 0 },
      { kind: 'segment', index: 0 },
    ]);
    const gone = [model.processes[0], model.segments[0], model.segments[2]].map((one) => one?.id);
    const kept = model.accesses.filter(({ process, segment }) => !gone.includes(process) && !gone.includes(segment));
    expect(edited.model.accesses).toEqual(kept);
    expect(edited.model.messages).toEqual(messages.slice(1));
    expect(edited.model.processes).toEqual(model.processes.slice(1));
    expect(edited.model.segments).toEqual([...model.segments.slice(1, 2), ...model.segments.slice(3)]);
    expect(edited.placement.processes).toEqual(state.placement.processes.slice(1));
    expect(edited.placement.segments.length).toBe(model.segments.length - 2);
  });

  it('that renames does so everywhere', () => {
    const edited = renamed(model, { kind: 'process', index: 4 }, 'sieve');
    expect(edited.accesses.filter(({ process }) => process === 'sieve').length).toBe(model.accesses.filter(({ process }) => process === 'filter 0').length);
    expect(edited.accesses.some(({ process }) => process === 'filter 0')).toBe(false);
  });

  it('that adds finds an id that is free', () => {
    const empty = { model: emptyModel('new', { kind: 'torus', nodes: 2, dims: [2] }), placement: { processes: [], segments: [] } };
    const twice = withProcess(withProcess(empty, 0), 1);
    expect(twice.model.processes.map(({ id }) => id)).toEqual(['process 0', 'process 1']);
    expect(withProcess(without(twice, [{ kind: 'process', index: 0 }]), 0).model.processes.map(({ id }) => id)).toEqual(['process 1', 'process 2']);
  });

  it('fills in what a file may leave out', () => {
    const file = { topology: { kind: 'fat_tree', radices: [2, 3] }, cost_model: { kind: 'hop_bytes', ns_per_byte_hop: 1 }, processes: [{ id: 'a', pin: null }] };
    expect(filledIn(file as unknown as Model)).toMatchObject({ topology: { nodes: 6 }, segments: [], accesses: [], processes: [{ id: 'a' }] });
  });
});
