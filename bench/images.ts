// A call of the images service, beside sharp called directly with the same options and one thread.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import sharp from 'sharp';
import { OutwardServices } from '../runtime/apps/outward-services.ts';
import { layout } from '../runtime/disk/data-directory.ts';
import { type Form, formWith } from '../test/support/images/forms.ts';
import { effort } from './support/bench-scale.ts';
import { median } from './support/figures.ts';

const ROUNDS = effort(25, 2);
/** Sizes of a JPEG, and the width of the WebP that it becomes. */
const SIZES: [width: number, height: number, to: number][] = [
  [800, 600, 200],
  [4_000, 3_000, 1_200],
];
const QUALITY = 80;

/** Prints the medians in ms. */
export async function run(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'cellar-images-'));
  const users = () => ({ build: null, cell: null });
  const services = new OutwardServices({ paths: layout(directory), users, ai: null, mail: null });
  sharp.concurrency(1);
  sharp.cache(false);
  try {
    const { images } = services.access('app');
    await images!.open();
    for (const [width, height, to] of SIZES) {
      const image = await photo(width, height);
      const form = await formWith([image], {
        transforms: JSON.stringify([{ imageIndex: 0, width: to }]),
        output_format: 'image/webp',
        output_quality: `${QUALITY}`,
      });
      const ways = [
        () => send(images!.socket, form),
        () => sharp(image, { autoOrient: true }).resize({ width: to }).webp({ quality: QUALITY }).toBuffer(),
      ];
      const times: number[][] = ways.map(() => []);
      for (let round = 0; round < ROUNDS; round++)
        for (const [at, way] of ways.entries()) times[at]!.push(await timed(way));
      const [service, direct] = times.map(median) as [number, number];
      console.log(
        `${width} × ${height} to a WebP ${to} wide: ${service.toFixed(1)} ms, by sharp ${direct.toFixed(1)} ms (${(service / direct).toFixed(2)} times)`,
      );
    }
  } finally {
    await services.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Returns a JPEG with shapes of many sizes, as a photo has them. */
function photo(width: number, height: number): Promise<Buffer> {
  const raw = { width: 40, height: 30, channels: 3 } as const;
  return sharp(randomBytes(40 * 30 * 3), { raw })
    .resize(width, height)
    .jpeg()
    .toBuffer();
}

async function send(socketPath: string, { headers, body }: Form): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const sent = request({ socketPath, path: '/transform', method: 'POST', headers }, (response) => {
    buffer(response).then(resolve, reject);
  });
  sent.on('error', reject);
  sent.end(body);
  const answer = await promise;
  if (answer.toString('latin1', 0, 4) !== 'RIFF') throw new Error(answer.toString('utf8', 0, 200));
  return answer;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}
