/**
 * A model and a placement in a link: JSON, deflated, base64url, behind the `#`, which browsers send to nobody. Works
 * without a network. More than 32 KiB is refused: many programs cut longer links.
 */
import { type Model, type Placement, placementFile, type PlacementFile } from '../model/model';

export const MOST_BYTES = 32 * 1024;
const PREFIX = '#m=';

async function through(bytes: Uint8Array<ArrayBuffer>, stream: GenericTransformStream): Promise<Uint8Array<ArrayBuffer>> {
  const response = new Response(new Blob([bytes]).stream().pipeThrough(stream as ReadableWritablePair));
  return new Uint8Array(await response.arrayBuffer());
}

/** The part of a link behind its address; `null` if it would be too long. */
export async function toFragment(model: Model, placement: Placement): Promise<string | null> {
  const json = JSON.stringify({ model, placement: placementFile(model, placement) });
  const packed = await through(new TextEncoder().encode(json), new CompressionStream('deflate-raw'));
  let binary = '';
  for (const byte of packed) binary += String.fromCharCode(byte);
  const fragment = PREFIX + btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
  return fragment.length > MOST_BYTES ? null : fragment;
}

export const isShared = (fragment: string): boolean => fragment.startsWith(PREFIX);

/**
 * What a link carries: the text of a model, and a placement file.
 *
 * @throws Error if the link is broken
 */
export async function fromFragment(fragment: string): Promise<{ text: string; placement: PlacementFile }> {
  try {
    const binary = atob(fragment.slice(PREFIX.length).replaceAll('-', '+').replaceAll('_', '/'));
    const packed = Uint8Array.from(binary, (character) => character.charCodeAt(0));
    const json = await through(packed, new DecompressionStream('deflate-raw'));
    const { model, placement } = JSON.parse(new TextDecoder().decode(json)) as { model: unknown; placement: PlacementFile };
    return { text: JSON.stringify(model), placement };
  } catch {
    throw new Error('The link is broken: part of it is missing, or another program has changed it. Ask for the file instead.');
  }
}
