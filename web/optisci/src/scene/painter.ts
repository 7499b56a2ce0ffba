/** What a picture is made of. The screen and the SVG file are painted by the same calls. */

export interface Stroke {
  colour: string;
  width: number;
  dash?: readonly number[];
}

/** Straight when there is no control point. */
export interface Line {
  x1: number;
  y1: number;
  x2: number;
  y2: number;
  cx?: number;
  cy?: number;
}

export interface TextStyle {
  size: number;
  colour: string;
  weight?: number;
  align?: 'left' | 'center' | 'right';
}

export interface Painter {
  rect(x: number, y: number, width: number, height: number, radius: number, fill: string | null, stroke?: Stroke): void;
  circle(x: number, y: number, radius: number, fill: string | null, stroke?: Stroke): void;
  /** Straight when there is no control point. */
  line(x1: number, y1: number, x2: number, y2: number, stroke: Stroke, cx?: number, cy?: number): void;
  /** Many lines of one kind, as one. */
  lines(lines: readonly Line[], stroke: Stroke): void;
  /** A filled polygon. */
  polygon(points: readonly number[], fill: string): void;
  /** `y` is the middle of the text's height. */
  text(x: number, y: number, text: string, style: TextStyle): void;
  /** Diagonal lines across a box: not possible here. */
  hatch(x: number, y: number, width: number, height: number, colour: string): void;
}

export const FONT = "'Inter Variable', Inter, system-ui, sans-serif";

/** The head of an arrow that ends at (x2, y2), coming from (x1, y1). */
export function arrowHead(painter: Painter, x1: number, y1: number, x2: number, y2: number, size: number, fill: string) {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const ux = (x2 - x1) / length;
  const uy = (y2 - y1) / length;
  const [bx, by] = [x2 - ux * size, y2 - uy * size];
  const half = size * 0.55;
  painter.polygon([x2, y2, bx - uy * half, by + ux * half, bx + uy * half, by - ux * half], fill);
}

/** Width of a letter, as a share of the size of the text: an estimate, so that both painters cut alike. */
export const LETTER = 0.56;

/** Text that fits, cut with an ellipsis. */
export function fitted(text: string, size: number, width: number): string {
  const most = Math.floor(width / (size * LETTER));
  return text.length <= most ? text : most < 2 ? '' : `${text.slice(0, most - 1)}…`;
}

export class CanvasPainter implements Painter {
  constructor(private readonly context: CanvasRenderingContext2D) {}

  /** How solid everything is that is painted from now on, 0 to 1. */
  fade(alpha: number) {
    this.context.globalAlpha = alpha;
  }

  rect(x: number, y: number, width: number, height: number, radius: number, fill: string | null, stroke?: Stroke) {
    const { context } = this;
    if (radius === 0 && !stroke) {
      if (fill) {
        context.fillStyle = fill;
        context.fillRect(x, y, width, height);
      }
      return;
    }
    context.beginPath();
    context.roundRect(x, y, width, height, radius);
    this.finish(fill, stroke);
  }

  circle(x: number, y: number, radius: number, fill: string | null, stroke?: Stroke) {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.finish(fill, stroke);
  }

  line(x1: number, y1: number, x2: number, y2: number, stroke: Stroke, cx?: number, cy?: number) {
    const { context } = this;
    context.beginPath();
    context.moveTo(x1, y1);
    if (cx === undefined || cy === undefined) context.lineTo(x2, y2);
    else context.quadraticCurveTo(cx, cy, x2, y2);
    this.finish(null, stroke);
  }

  lines(lines: readonly Line[], stroke: Stroke) {
    const { context } = this;
    const half = stroke.width / 2;
    context.fillStyle = stroke.colour;
    context.beginPath();
    for (const { x1, y1, x2, y2, cx, cy } of lines) {
      // Most links of a large machine run along a row or a column: a box is painted faster than a path.
      if (!stroke.dash && x1 === x2 && (cx === undefined || cx === x1)) {
        context.fillRect(x1 - half, Math.min(y1, y2), stroke.width, Math.abs(y2 - y1));
        continue;
      }
      if (!stroke.dash && y1 === y2 && (cy === undefined || cy === y1)) {
        context.fillRect(Math.min(x1, x2), y1 - half, Math.abs(x2 - x1), stroke.width);
        continue;
      }
      context.moveTo(x1, y1);
      if (cx === undefined || cy === undefined) context.lineTo(x2, y2);
      else context.quadraticCurveTo(cx, cy, x2, y2);
    }
    this.finish(null, stroke);
  }

  polygon(points: readonly number[], fill: string) {
    const { context } = this;
    context.beginPath();
    for (let at = 0; at < points.length; at += 2) context.lineTo(points[at] ?? 0, points[at + 1] ?? 0);
    context.closePath();
    context.fillStyle = fill;
    context.fill();
  }

  text(x: number, y: number, text: string, { size, colour, weight = 400, align = 'left' }: TextStyle) {
    const { context } = this;
    context.font = `${weight} ${size}px ${FONT}`;
    context.textAlign = align;
    context.textBaseline = 'middle';
    context.fillStyle = colour;
    context.fillText(text, x, y);
  }

  hatch(x: number, y: number, width: number, height: number, colour: string) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.beginPath();
    for (let offset = -height; offset < width; offset += 12) {
      context.moveTo(x + offset, y + height);
      context.lineTo(x + offset + height, y);
    }
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.stroke();
    context.restore();
  }

  private finish(fill: string | null, stroke?: Stroke) {
    const { context } = this;
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) {
      context.strokeStyle = stroke.colour;
      context.lineWidth = stroke.width;
      context.setLineDash((stroke.dash ?? []) as number[]);
      context.stroke();
    }
  }
}

export class SvgPainter implements Painter {
  private readonly parts: string[] = [];

  rect(x: number, y: number, width: number, height: number, radius: number, fill: string | null, stroke?: Stroke) {
    this.add('rect', { x, y, width, height, rx: radius, ...paint(fill, stroke) });
  }

  circle(x: number, y: number, radius: number, fill: string | null, stroke?: Stroke) {
    this.add('circle', { cx: x, cy: y, r: radius, ...paint(fill, stroke) });
  }

  line(x1: number, y1: number, x2: number, y2: number, stroke: Stroke, cx?: number, cy?: number) {
    this.lines([{ x1, y1, x2, y2, ...(cx === undefined || cy === undefined ? {} : { cx, cy }) }], stroke);
  }

  lines(lines: readonly Line[], stroke: Stroke) {
    const d = lines.map(({ x1, y1, x2, y2, cx, cy }) => {
      const way = cx === undefined || cy === undefined ? `L${n(x2)} ${n(y2)}` : `Q${n(cx)} ${n(cy)} ${n(x2)} ${n(y2)}`;
      return `M${n(x1)} ${n(y1)}${way}`;
    });
    this.add('path', { d: d.join(''), ...paint(null, stroke) });
  }

  polygon(points: readonly number[], fill: string) {
    this.add('polygon', { points: points.map(n).join(' '), fill });
  }

  text(x: number, y: number, text: string, { size, colour, weight = 400, align = 'left' }: TextStyle) {
    const anchor = { left: 'start', center: 'middle', right: 'end' }[align];
    const attributes = { x, y: y + size * 0.35, 'font-size': size, 'font-weight': weight, 'text-anchor': anchor };
    this.add('text', { ...attributes, fill: colour }, text);
  }

  hatch(x: number, y: number, width: number, height: number, colour: string) {
    for (let offset = 0; offset < width + height; offset += 12) {
      const [x1, x2] = [Math.max(0, offset - height), Math.min(width, offset)];
      this.line(x + x1, y + offset - x1, x + x2, y + offset - x2, { colour, width: 2 });
    }
  }

  /** The whole file. */
  file(left: number, top: number, width: number, height: number, background: string, title: string): string {
    const box = [left, top, width, height].map(n).join(' ');
    const start = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${box}" width="${n(width)}" height="${n(height)}" font-family="${escape(FONT)}" role="img">`;
    const ground = `<rect x="${n(left)}" y="${n(top)}" width="${n(width)}" height="${n(height)}" fill="${background}"/>`;
    return `${start}\n<title>${escape(title)}</title>\n${ground}\n${this.parts.join('\n')}\n</svg>\n`;
  }

  private add(name: string, attributes: Record<string, string | number>, content?: string) {
    const list = Object.entries(attributes).map(([key, value]) => `${key}="${escape(n(value))}"`);
    this.parts.push(`<${name} ${list.join(' ')}${content === undefined ? '/>' : `>${escape(content)}</${name}>`}`);
  }
}

const n = (value: string | number): string =>
  typeof value === 'number' ? String(Math.round(value * 100) / 100) : value;

const escape = (text: string): string =>
  text.replace(/[&<>"]/g, (character) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[character] ?? '');

function paint(fill: string | null, stroke?: Stroke): Record<string, string | number> {
  const attributes: Record<string, string | number> = { fill: fill ?? 'none' };
  if (stroke) {
    attributes['stroke'] = stroke.colour;
    attributes['stroke-width'] = stroke.width;
    if (stroke.dash?.length) attributes['stroke-dasharray'] = stroke.dash.join(' ');
  }
  return attributes;
}
