/** Files that the page writes: the model, the placement in the formats of `deck place export`, and pictures. */
import { type Model, placementFile } from '../model/model';
import { SvgPainter } from '../scene/painter';
import type { Palette } from '../scene/palette';
import { paintItems, paintMachine } from '../scene/scene';
import type { Session } from '../state/session.svelte';

export interface Saved {
  name: string;
  content: Blob;
}

export type SaveKind = 'model' | 'both' | 'placement' | 'svg' | 'png' | 'csv' | 'rankfile' | 'slurm' | 'numactl' | 'metis' | 'scotch-graph' | 'scotch-target' | 'scotch-map' | 'metis-part';

export const KINDS: readonly { kind: SaveKind; name: string; explained: string; group: string }[] = [
  { group: 'OptiSCI', kind: 'model', name: 'Model', explained: 'JSON, for deck place' },
  { group: 'OptiSCI', kind: 'placement', name: 'Placement', explained: 'JSON, for deck place' },
  { group: 'OptiSCI', kind: 'both', name: 'Both', explained: 'one JSON file to open here' },
  { group: 'OptiSCI', kind: 'csv', name: 'CSV', explained: 'tables and matrices' },
  { group: 'To run it', kind: 'rankfile', name: 'Rankfile', explained: 'Open MPI, PRRTE' },
  { group: 'To run it', kind: 'slurm', name: 'Host file', explained: 'SLURM, arbitrary' },
  { group: 'To run it', kind: 'numactl', name: 'numactl', explained: 'a shell script' },
  { group: 'Pictures', kind: 'svg', name: 'SVG', explained: 'sharp at any size' },
  { group: 'Pictures', kind: 'png', name: 'PNG', explained: 'at least 3200 pixels wide' },
  { group: 'Graphs', kind: 'metis', name: 'METIS graph', explained: '' },
  { group: 'Graphs', kind: 'metis-part', name: 'METIS partition', explained: '' },
  { group: 'Graphs', kind: 'scotch-graph', name: 'Scotch graph', explained: '' },
  { group: 'Graphs', kind: 'scotch-target', name: 'Scotch target', explained: '' },
  { group: 'Graphs', kind: 'scotch-map', name: 'Scotch mapping', explained: '' },
];

const ENDINGS: Partial<Record<SaveKind, string>> = {
  csv: 'csv',
  rankfile: 'rankfile',
  slurm: 'hosts',
  numactl: 'numactl.sh',
  metis: 'graph',
  'metis-part': 'part',
  'scotch-graph': 'grf',
  'scotch-target': 'tgt',
  'scotch-map': 'map',
};

/** A name for files: that of the model, in letters that every system takes. */
const stem = (model: Model): string => (model.id ?? 'placement').toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '') || 'placement';

const json = (value: unknown) => new Blob([`${JSON.stringify(value, null, 1)}\n`], { type: 'application/json' });

/**
 * Makes a file.
 *
 * @throws InputError if the format cannot express the placement
 */
export async function save(session: Session, kind: SaveKind, palette: Palette): Promise<Saved> {
  const { model, placement } = session;
  const name = stem(model);
  if (kind === 'model') return { name: `${name}.json`, content: json(model) };
  if (kind === 'placement') return { name: `${name}.placement.json`, content: json(placementFile(model, placement)) };
  if (kind === 'both') return { name: `${name}.optisci.json`, content: json({ model, placement: placementFile(model, placement) }) };
  if (kind === 'svg') return { name: `${name}.svg`, content: new Blob([picture(session, palette)], { type: 'image/svg+xml' }) };
  if (kind === 'png') return { name: `${name}.png`, content: await raster(picture(session, palette)) };
  return { name: `${name}.${ENDINGS[kind]}`, content: new Blob([session.engine.export(kind)], { type: 'text/plain' }) };
}

/** The picture of the machine as it is on the screen, whole. */
export function picture(session: Session, palette: Palette): string {
  const { model, layout, marks, evaluation, linkScale, segmentScale } = session;
  const none = new Set<string>();
  const { bounds } = layout;
  const scene = { model, layout, marks, evaluation, palette, linkScale, segmentScale, tints: null, selected: none, focused: null, zoom: 1, sight: bounds };
  const painter = new SvgPainter();
  paintMachine(painter, scene);
  paintItems(painter, scene, none);
  return painter.file(bounds.x, bounds.y, bounds.width, bounds.height, palette.ground, `${model.id ?? 'Placement'}. ${session.costText()}`);
}

/** The same as pixels: twice as many as the drawing has units, and at least 3200 across, as far as browsers can. */
async function raster(svg: string): Promise<Blob> {
  const url = URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const scale = Math.min(Math.max(2, 3200 / image.width), 8000 / Math.max(image.width, image.height));
    const canvas = document.createElement('canvas');
    canvas.width = Math.round(image.width * scale);
    canvas.height = Math.round(image.height * scale);
    const context = canvas.getContext('2d');
    if (!context) throw new Error('This browser cannot draw a picture of this size: save an SVG instead.');
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) =>
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('The picture is too large: save an SVG instead.'))), 'image/png'),
    );
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** Hands a file to the browser. */
export function download({ name, content }: Saved) {
  const url = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
