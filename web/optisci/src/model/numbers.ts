/** Numbers as people read them: three to four significant digits, a unit that fits, and never a minus that is noise. */

/** Less than this, relative, is rounding and not a change. */
const NOISE = 1e-9;

const scaled = (value: number, step: number, units: readonly string[]): string => {
  let unit = 0;
  while (Math.abs(value) >= step * 0.99995 && unit < units.length - 1) {
    value /= step;
    unit++;
  }
  const magnitude = Math.abs(value);
  const digits = Number.isInteger(value) && unit === 0 ? 0 : magnitude >= 100 ? 1 : magnitude >= 10 ? 2 : 3;
  return `${value.toFixed(value === 0 ? 0 : digits)} ${units[unit]}`;
};

/** `412.5 ms` */
export const time = (ns: number): string => scaled(ns, 1000, ['ns', 'µs', 'ms', 's', 'ks', 'Ms']);

/** `2.00 MiB` */
export const bytes = (count: number): string => scaled(count, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']);

/** `20 000`, with thin spaces that no line break splits. */
export const count = (value: number): string => Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, '\u202f');

/** `1 item`, `2 items`. */
export const counted = (value: number, one: string, many: string): string => `${count(value)} ${value === 1 ? one : many}`;

/** A value of an objective in its unit. */
export const amount = (value: number, unit: 'ns' | 'bytes'): string => (unit === 'ns' ? time(value) : bytes(value));

/** Whether two costs differ by more than rounding. */
export const differs = (a: number, b: number): boolean => Math.abs(a - b) > NOISE * Math.max(Math.abs(a), Math.abs(b));

/** The change from one cost to another: `−3.2 %`, `+0.04 %`, or `no change`. */
export function change(from: number, to: number): string {
  if (!differs(from, to)) return 'no change';
  if (from === 0) return 'from zero';
  const percent = ((to - from) / Math.abs(from)) * 100;
  const magnitude = Math.abs(percent);
  const text = magnitude >= 9.95 ? magnitude.toFixed(0) : magnitude >= 0.95 ? magnitude.toFixed(1) : magnitude.toPrecision(1);
  return `${percent < 0 ? '−' : '+'}${text} %`;
}

/** A share of a whole: `86 %`, `0.4 %`; `< 0.1 %` of what is there and small. */
export function share(part: number, whole: number): string {
  const percent = whole === 0 ? 0 : (part / whole) * 100;
  if (percent === 0) return '0 %';
  return percent < 0.05 ? '< 0.1 %' : `${percent.toFixed(percent < 9.95 ? 1 : 0)} %`;
}
