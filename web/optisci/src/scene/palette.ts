/**
 * Colours of the picture, light and dark. Every scale runs in lightness as well as in hue, and better and worse are blue
 * and orange, so that nobody needs to tell red from green; numbers and line widths say the same again.
 */

export interface Palette {
  ground: string;
  box: string;
  boxEdge: string;
  frame: string;
  ink: string;
  soft: string;
  faint: string;
  process: string;
  onProcess: string;
  accent: string;
  read: string;
  write: string;
  message: string;
  hatch: string;
  better: Rgb;
  worse: Rgb;
  boxRgb: Rgb;
  /** Scales: bytes on a link, what the accesses to a segment cost. */
  link: readonly Rgb[];
  segment: readonly Rgb[];
}
export type Rgb = readonly [number, number, number];

export const LIGHT: Palette = {
  ground: '#f3f4f7',
  box: '#ffffff',
  boxEdge: '#c5ccd8',
  frame: '#e9ecf1',
  ink: '#16202e',
  soft: '#566275',
  faint: '#d9dee6',
  process: '#22395b',
  onProcess: '#ffffff',
  accent: '#5b3df0',
  read: '#0b6bcb',
  write: '#ad4a06',
  message: '#7a3aa8',
  hatch: 'rgba(60,70,85,0.28)',
  better: [38, 132, 209],
  worse: [232, 128, 36],
  boxRgb: [255, 255, 255],
  link: [
    [201, 208, 219],
    [196, 160, 208],
    [170, 96, 193],
    [129, 44, 157],
    [76, 10, 104],
  ],
  segment: [
    [206, 234, 224],
    [134, 207, 184],
    [55, 168, 143],
    [10, 117, 102],
    [4, 68, 62],
  ],
};

export const DARK: Palette = {
  ground: '#0d1117',
  box: '#171d26',
  boxEdge: '#323d4c',
  frame: '#12171f',
  ink: '#e9eef5',
  soft: '#9aa7b8',
  faint: '#252e3a',
  process: '#c3d3ee',
  onProcess: '#10192a',
  accent: '#a79bff',
  read: '#5cb2ff',
  write: '#ff9b4a',
  message: '#d19af5',
  hatch: 'rgba(160,172,190,0.25)',
  better: [42, 128, 206],
  worse: [214, 112, 28],
  boxRgb: [23, 29, 38],
  link: [
    [58, 68, 82],
    [104, 74, 134],
    [156, 92, 194],
    [208, 134, 234],
    [248, 208, 255],
  ],
  segment: [
    [38, 74, 69],
    [32, 112, 99],
    [44, 160, 138],
    [112, 212, 184],
    [212, 250, 235],
  ],
};

/** A colour between two. */
export const mix = (a: Rgb, b: Rgb, t: number): Rgb => [
  a[0] + (b[0] - a[0]) * t,
  a[1] + (b[1] - a[1]) * t,
  a[2] + (b[2] - a[2]) * t,
];

export const css = (rgb: Rgb): string => `rgb(${Math.round(rgb[0])},${Math.round(rgb[1])},${Math.round(rgb[2])})`;

/** A colour of a ramp, for a share of 0 to 1. */
export function ramp(colours: readonly Rgb[], share: number): Rgb {
  const place = Math.min(Math.max(share, 0), 1) * (colours.length - 1);
  const index = Math.min(Math.floor(place), colours.length - 2);
  return mix(colours[index] as Rgb, colours[index + 1] as Rgb, place - index);
}

/** Colours of a scale that thousands of marks share. */
const SHADES = 64;
const shades = new WeakMap<readonly Rgb[], string[]>();

/** The nearest of a ramp's shades, for marks that are painted by the thousand. */
export function shade(colours: readonly Rgb[], share: number): string {
  let made = shades.get(colours);
  if (!made) {
    made = Array.from({ length: SHADES + 1 }, (_, step) => css(ramp(colours, step / SHADES)));
    shades.set(colours, made);
  }
  return made[Math.round(Math.min(Math.max(share, 0), 1) * SHADES)] as string;
}

/** The tint of a box: -1 is the best change of the trial, 1 the worst, 0 none. */
export function tint(palette: Palette, change: number): Rgb {
  const strength = Math.min(Math.abs(change), 1);
  // The square root lets small changes be seen next to large ones.
  return mix(palette.boxRgb, change < 0 ? palette.better : palette.worse, strength === 0 ? 0 : 0.1 + 0.58 * Math.sqrt(strength));
}

/** Black or white, whichever is easier to read on a colour (WCAG contrast). */
export function inkOn(rgb: Rgb): string {
  const linear = (channel: number) => {
    const c = channel / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  const luminance = 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2]);
  return luminance > 0.179 ? '#10161f' : '#ffffff';
}
