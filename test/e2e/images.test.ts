// A pushed app with the images binding, and the same Worker in Miniflare.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import sharp from 'sharp';
import { sharedCellar } from '../support/e2e/shared.ts';
import { assertAlike, bytesOf, plain } from '../support/images/forms.ts';
import { newMiniflare } from '../support/miniflare.ts';

const cellar = sharedCellar('storage');

/** Sends an image to the app. */
async function send(path: string, image: Buffer): Promise<Response> {
  return (await cellar.open('pictures', path, { method: 'POST', body: image })) as unknown as Response;
}

test('an app reads, transforms and draws images', async () => {
  await cellar.deploy('pictures', 'images');
  const image = await plain(200, 100, 'red');
  assert.deepEqual(await (await send('/info', image)).json(), {
    format: 'image/png',
    fileSize: image.length,
    width: 200,
    height: 100,
  });
  const drawn = await send('/watermark', image);
  assert.equal(drawn.headers.get('content-type'), 'image/webp');
  assert.partialDeepStrictEqual(await sharp(await bytesOf(drawn)).metadata(), { width: 100, height: 50 });
  const refused = await send('/info', Buffer.from('no image'));
  const { code, message } = (await refused.json()) as { code: number; message: string };
  assert.equal(code, 9412);
  assert.match(message, /^IMAGES_INFO_ERROR 9412: the bytes are not an image/);
});

test('results have the size, the format and about the pixels of those of Miniflare', async () => {
  const miniflare = newMiniflare({
    name: 'pictures',
    modules: true,
    scriptPath: 'test/apps/images/index.js',
    compatibilityDate: '2026-10-01',
    images: { binding: 'IMAGES' },
  });
  try {
    const url = await miniflare.ready;
    const image = await sharp(await plain(200, 100, 'red'))
      .composite([{ input: await plain(70, 60, 'blue'), left: 90, top: 0 }])
      .png()
      .toBuffer();
    const cases = [
      ...[{}, { width: 50 }, { width: 400 }, { width: 400, fit: 'contain' }, { rotate: 90 }, { height: 33 }],
      { width: 40, height: 40, fit: 'cover' },
      { width: 40, height: 40, fit: 'cover', gravity: 'right' },
      { width: 40, height: 70, fit: 'crop', gravity: 'left' },
      { width: 60, height: 60, fit: 'pad' },
      { width: 60, height: 60, fit: 'pad', background: '#00ff00' },
      { width: 60, height: 60, fit: 'squeeze' },
      { width: 60, rotate: 270 },
    ];
    for (const options of cases)
      for (const to of ['image/png', 'image/webp', 'image/jpeg']) {
        const path = `/transform?to=${to}&options=${encodeURIComponent(JSON.stringify(options))}`;
        const theirs = await fetch(new URL(path, url), { method: 'POST', body: new Uint8Array(image) });
        const ours = await send(path, image);
        const name = `${JSON.stringify(options)} to ${to}`;
        await assertAlike(ours, theirs, name);
      }
  } finally {
    await miniflare.dispose();
  }
});
