import { describe, expect, it } from 'vitest';
import { bytes, change, count, counted, differs, share, time } from './numbers';

describe('numbers', () => {
  it('times get the unit that fits them', () => {
    expect(time(0)).toBe('0 ns');
    expect(time(33)).toBe('33 ns');
    expect(time(412_484_727)).toBe('412.5 ms');
    expect(time(999_999_999)).toBe('1.000 s');
  });
  it('bytes are counted in powers of 1024', () => {
    expect(bytes(2048)).toBe('2.000 KiB');
    expect(bytes(512)).toBe('512 B');
  });
  it('rounding is not shown as a change', () => {
    expect(change(1e9, 1e9 + 0.1)).toBe('no change');
    expect(differs(1e9, 1e9 + 2)).toBe(true);
  });
  it('changes have a sign, and digits that matter', () => {
    expect(change(100, 96.8)).toBe('−3.2 %');
    expect(change(100, 150)).toBe('+50 %');
    expect(change(100, 100.001)).toBe('+0.001 %');
    expect(change(0, 5)).toBe('from zero');
  });
  it('one is no plural', () => {
    expect([0, 1, 2, 1200].map((value) => counted(value, 'entry', 'entries'))).toEqual(['0 entries', '1 entry', '2 entries', '1\u202f200 entries']);
  });
  it('shares and counts', () => {
    expect(share(43, 50)).toBe('86 %');
    expect(share(1, 0)).toBe('0 %');
    expect(share(0, 50)).toBe('0 %');
    expect(share(1, 9000)).toBe('< 0.1 %');
    expect(share(2, 50)).toBe('4.0 %');
    expect(count(1234567)).toBe('1\u202f234\u202f567');
  });
});
