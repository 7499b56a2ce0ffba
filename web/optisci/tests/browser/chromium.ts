/** A browser, the page as `deck place serve` serves it, and where things are in its picture. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { Engine } from '../../src/engine/engine';
import { filledIn } from '../../src/model/edit';
import type { Item, Model, Placement } from '../../src/model/model';
import { type Camera, fitting } from '../../src/scene/camera';
import { type Layout, layout } from '../../src/scene/layout';
import { pack } from '../../src/scene/packing';

const here = dirname(fileURLToPath(import.meta.url));
export const root = resolve(here, '../../../..');
const target = process.env['CARGO_TARGET_DIR'] ? resolve(root, process.env['CARGO_TARGET_DIR']) : join(root, 'target');
export const output = resolve(here, '../../output');
export const deck = process.env['DECK'] ?? join(target, 'release/deck');

/** Where the browser is, or what to do. */
export function browserPath(): string {
  const names = process.env['CHROMIUM'] ? [process.env['CHROMIUM']] : ['chromium', 'chromium-browser', 'google-chrome'];
  for (const name of names) {
    const found = spawnSync('sh', ['-c', `command -v "${name}"`], { encoding: 'utf8' }).stdout.trim();
    if (found) return found;
  }
  throw new Error('There is no Chromium: run scripts/prerequisites web, or name one in CHROMIUM.');
}

export async function launch(): Promise<Browser> {
  const args = ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
  return chromium.launch({ executablePath: browserPath(), args });
}

/** `deck place serve` at a free port. */
export class Server {
  private constructor(
    private readonly process: ChildProcess,
    readonly address: string,
  ) {}

  static async start(model?: string): Promise<Server> {
    if (!existsSync(deck)) throw new Error(`${deck} is missing: run make build, or name a deck in DECK.`);
    const child = spawn(deck, ['place', 'serve', '--port', '0', ...(model ? [model] : [])], { stdio: ['ignore', 'pipe', 'pipe'] });
    const address = await new Promise<string>((found, failed) => {
      let said = '';
      const hear = (chunk: Buffer) => {
        said += chunk.toString();
        const match = /http:\/\/127\.0\.0\.1:\d+\//.exec(said);
        if (match) found(match[0]);
      };
      child.stdout.on('data', hear);
      child.stderr.on('data', hear);
      child.on('exit', (code) => failed(new Error(`deck place serve ended with ${code}: ${said}`)));
    });
    return new Server(child, address);
  }

  stop() {
    this.process.kill();
  }
}

/** A page that is open, and the errors that it has logged. The hint for a first visit is only there if it is asked for. */
export async function openPage(
  browser: Browser,
  address: string,
  { isFirst = false, ...options }: BrowserContextOptions & { isFirst?: boolean } = {},
): Promise<{ page: Page; errors: string[] }> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  // A watchdog: machines with other work to do stand still for a while.
  page.setDefaultTimeout(60_000);
  if (!isFirst) await page.addInitScript(() => localStorage.setItem('optisci.hint', 'seen'));
  const errors: string[] = [];
  page.on('console', (message) => {
    // Reading canvases is what these tests do, not the page.
    if (message.text().includes('willReadFrequently')) return;
    if (message.type() === 'error' || message.type() === 'warning') errors.push(message.text());
  });
  page.on('pageerror', (error) => errors.push(error.message));
  // Nothing may be asked of any other host.
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol.startsWith('http') && origin !== new URL(address).origin) errors.push(`asked ${request.url()}`);
  });
  await page.goto(address);
  await page.waitForSelector('.page');
  return { page, errors };
}

export async function screenshot(page: Page, name: string) {
  mkdirSync(output, { recursive: true });
  await page.screenshot({ path: join(output, `${name}.png`) });
}

/** What the page says a placement costs, and what it tells a screen reader. */
export const total = async (page: Page): Promise<string> => (await page.textContent('[data-test=total]')) ?? '';
export const said = async (page: Page): Promise<string> => ((await page.textContent('[data-test=said]')) ?? '').replace('\u00a0', '');

/** The engine, in this process. */
export async function engine(): Promise<Engine> {
  return Engine.start(await WebAssembly.compile(readFileSync(resolve(here, '../../src/engine/optisci.wasm'))));
}

/** Where things of a model are on the screen, as long as nobody has zoomed. */
export class Picture {
  private constructor(
    private readonly left: number,
    private readonly top: number,
    private readonly camera: Camera,
    readonly layout: Layout,
    private readonly model: Model,
  ) {}

  static async of(page: Page, text: string): Promise<Picture> {
    const { links } = (await engine()).open(text);
    const model = filledIn(JSON.parse(text) as Model);
    const made = layout(model.topology, links, model.processes.length + model.segments.length);
    const box = await page.locator('.machine').boundingBox();
    if (!box) throw new Error('the machine is not shown');
    return new Picture(box.x, box.y, fitting(made.bounds, box.width, box.height), made, model);
  }

  private screen(x: number, y: number) {
    return { x: this.left + this.camera.x + x * this.camera.zoom, y: this.top + this.camera.y + y * this.camera.zoom };
  }

  /** The middle of an item's mark. */
  item(placement: Placement, item: Item) {
    const mark = pack(this.layout.nodes, placement)
      .flat()
      .find((each) => each.item.kind === item.kind && each.item.index === item.index);
    if (!mark) throw new Error(`${this.model.id} has no ${item.kind} ${item.index}`);
    return this.screen(mark.x, mark.y);
  }

  /** A free place at the bottom of a node's box. */
  node(node: number) {
    const box = this.layout.nodes[node];
    if (!box) throw new Error(`${this.model.id} has no node ${node}`);
    return this.screen(box.x + box.width / 2, box.y + box.height - 8);
  }
}

/** The canvases of the machine view, from the lowest up. */
export const LAYERS = { links: 0, boxes: 1, hand: 2 } as const;

/** Colour of a layer of the machine view at a point of the screen, after the next frame was painted. */
export async function colourAt(page: Page, layer: keyof typeof LAYERS, point: { x: number; y: number }): Promise<[number, number, number]> {
  return page.evaluate(
    async ({ layer, x, y }) => {
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      const canvas = document.querySelectorAll<HTMLCanvasElement>('.machine canvas')[layer];
      const context = canvas?.getContext('2d');
      if (!canvas || !context) throw new Error(`there is no layer ${layer}`);
      const { left, top, width } = canvas.getBoundingClientRect();
      const ratio = canvas.width / width;
      const [red = 0, green = 0, blue = 0] = context.getImageData((x - left) * ratio, (y - top) * ratio, 1, 1).data;
      return [red, green, blue] as [number, number, number];
    },
    { layer: LAYERS[layer], ...point },
  );
}

/** What is painted on a layer, as text that differs when the picture does. */
export async function painted(page: Page, layer: keyof typeof LAYERS): Promise<string> {
  return page.evaluate(async (layer) => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return document.querySelectorAll<HTMLCanvasElement>('.machine canvas')[layer]?.toDataURL() ?? '';
  }, LAYERS[layer]);
}
