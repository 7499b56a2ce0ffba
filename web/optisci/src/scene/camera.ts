/** Where the world is on the screen. */
import type { Box } from './layout';

/** Screen position of the world's origin, and pixels per world unit. */
export interface Camera {
  x: number;
  y: number;
  zoom: number;
}

/** Room at the bottom of the picture for the legend. */
const LEGEND = 64;

/** The camera that shows the whole of `bounds` in a picture of some size, of which something covers the top. */
export function fitting(bounds: Box, width: number, height: number, covered = 0): Camera {
  const room = Math.max(height - LEGEND - covered, 1);
  const zoom = Math.min(width / bounds.width, room / bounds.height, 1.6);
  return {
    x: (width - bounds.width * zoom) / 2 - bounds.x * zoom,
    y: covered + (room - bounds.height * zoom) / 2 - bounds.y * zoom,
    zoom,
  };
}

/** The camera after zooming by a factor around a point of the screen. */
export function zoomed({ x, y, zoom }: Camera, factor: number, aroundX: number, aroundY: number): Camera {
  const next = Math.min(Math.max(zoom * factor, 0.02), 6);
  const by = next / zoom;
  return { x: aroundX - (aroundX - x) * by, y: aroundY - (aroundY - y) * by, zoom: next };
}
