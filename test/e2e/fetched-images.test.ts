// A pushed app that fetches images with `cf.image`, and the same Worker in Miniflare.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import sharp from 'sharp';
import { Cellar } from '../support/e2e/cellar.ts';
import { assertAlike, bytesOf, pixelsOf, plain } from '../support/images/forms.ts';
import { newMiniflare } from '../support/miniflare.ts';

const cellar = new Cellar({ RUNNER_EGRESS_ALLOW: '127.0.0.1' });
const image = await sharp(await plain(200, 100, 'red'))
  .composite([{ input: await plain(70, 60, 'blue'), left: 90, top: 0 }])
  .png()
  .toBuffer();

const portOf = (server: Server) => (server.address() as AddressInfo).port;

/** The headers of the last request for an image. */
let asked: IncomingHttpHeaders = {};
/** Requests for images so far. */
let requests = 0;
const origin = createServer((request, response) => {
  asked = request.headers;
  requests++;
  const { pathname } = new URL(request.url!, 'http://origin');
  if (pathname === '/image.png')
    return void response
      .setHeader('cache-control', 'max-age=60')
      .setHeader('etag', '"one"')
      .setHeader('set-cookie', 'a=b')
      .end(image);
  if (pathname === '/moved') return void response.writeHead(302, { location: '/image.png' }).end();
  if (pathname === '/private')
    return void response.writeHead(302, { location: `http://127.0.0.2:${portOf(closed)}/` }).end();
  if (pathname === '/text') return void response.setHeader('content-type', 'image/png').end('no image');
  if (pathname === '/broken') return void response.writeHead(500).end();
  if (pathname === '/secret') return void response.writeHead(401).end();
  if (pathname === '/unchanged') return void response.writeHead(304).end();
  if (pathname === '/endless') {
    const more = () => {
      while (response.write(Buffer.alloc(65_536)));
    };
    response.on('drain', more);
    return more();
  }
  response.writeHead(404).end();
});

/** The headers of the last request to the server of other images. */
let askedElsewhere: IncomingHttpHeaders = {};
const elsewhere = createServer((request, response) => {
  askedElsewhere = request.headers;
  response.end(image);
});

/** A server at an address that apps may not reach. */
const closed = createServer((_, response) => response.end(image));

before(async () => {
  origin.listen(0, '127.0.0.1');
  elsewhere.listen(0, '127.0.0.1');
  closed.listen(0, '127.0.0.2');
  await Promise.all([
    ...[origin, elsewhere].map((each) => once(each, 'listening')),
    once(closed, 'listening'),
    cellar.start(),
  ]);
  await cellar.deploy('thumbnails', 'fetched-images');
});
after(async () => {
  origin.closeAllConnections();
  origin.close();
  elsewhere.close();
  closed.close();
  await cellar[Symbol.asyncDispose]();
});

const originUrl = (path: string) => `http://127.0.0.1:${portOf(origin)}${path}`;
const pathOf = (path: string, options: object, way = '/') =>
  `${way}?url=${encodeURIComponent(originUrl(path))}&options=${encodeURIComponent(JSON.stringify(options))}`;

async function fetched(
  path: string,
  options: object,
  { way = '/', headers = {} }: { way?: string; headers?: Record<string, string> } = {},
): Promise<Response> {
  return (await cellar.open('thumbnails', pathOf(path, options, way), { headers })) as unknown as Response;
}

test('a fetched image is transformed, and has the headers of a new image', async () => {
  for (const way of ['/', '/request', '/object']) {
    const response = await fetched('/moved', { width: 50, format: 'webp' }, { way });
    assert.equal(response.status, 200, way);
    assert.equal(response.headers.get('content-type'), 'image/webp');
    assert.equal(response.headers.get('cf-resized'), 'internal=ok/m');
    assert.equal(response.headers.get('cache-control'), 'max-age=60');
    assert.deepEqual([response.headers.get('etag'), response.headers.get('set-cookie')], [null, null]);
    const facts = await sharp(await bytesOf(response)).metadata();
    assert.partialDeepStrictEqual(facts, { format: 'webp', width: 50, height: 25 });
  }
});

test('options of Cloudflare: density, facts, formats by Accept, drawn images', async () => {
  const facts = await fetched('/image.png', { width: 20, dpr: 2, format: 'json' });
  assert.deepEqual(await facts.json(), {
    width: 40,
    height: 20,
    original: { format: 'image/png', file_size: image.length, width: 200, height: 100 },
  });
  const auto = { format: 'auto', width: 50 };
  const typeFor = async (accept: string) => {
    const { headers } = await fetched('/image.png', auto, { headers: { accept } });
    return [headers.get('content-type'), headers.get('vary')];
  };
  assert.deepEqual(await typeFor('image/avif,image/webp,*/*'), ['image/avif', 'accept']);
  assert.deepEqual(await typeFor('image/webp,*/*'), ['image/webp', 'accept']);
  assert.deepEqual(await typeFor('*/*'), ['image/png', 'accept']);
  const draw = [{ url: originUrl('/image.png'), width: 20, height: 20, fit: 'squeeze', top: 0, left: 0 }];
  const drawn = await fetched('/image.png', { width: 100, background: 'white', draw });
  const { data } = await pixelsOf(await bytesOf(drawn));
  const at = (x: number, y: number) => [...data.subarray((y * 100 + x) * 3, (y * 100 + x) * 3 + 3)];
  assert.deepEqual(
    [at(12, 3), at(5, 30)],
    [
      [0, 0, 255],
      [255, 0, 0],
    ],
  );
});

test('an origin gets no secrets of a visitor, unless the app shares them, and sees where the loop is', async () => {
  const headers = { authorization: 'Bearer x', cookie: 'a=b', range: 'bytes=0-9', 'if-none-match': '"one"' };
  assert.equal((await fetched('/image.png', { width: 9 }, { headers })).status, 200);
  for (const name of Object.keys(headers)) assert.equal(asked[name], undefined, name);
  assert.match(asked.via!, /\bimage-resizing$/);
  const shared = { width: 9, 'origin-auth': 'share-publicly' };
  assert.equal((await fetched('/image.png', shared, { headers })).status, 200);
  assert.deepEqual([asked.authorization, asked.range], ['Bearer x', undefined]);
  const drawn = { ...shared, draw: [{ url: `http://127.0.0.1:${portOf(elsewhere)}/` }] };
  assert.equal((await fetched('/image.png', drawn, { headers })).status, 200);
  assert.equal(asked.authorization, 'Bearer x');
  for (const name of Object.keys(headers)) assert.equal(askedElsewhere[name], undefined, name);
  const before = requests;
  const looped = await fetched('/image.png', { width: 9 }, { headers: { via: '1.1 image-resizing' } });
  assert.equal(looped.headers.get('cf-resized'), 'err=9403');
  assert.equal(requests, before);
});

test('failures have the status and the code of Cloudflare', async () => {
  const cases: [path: string, options: object, status: number, code: number][] = [
    ['/missing', { width: 9 }, 404, 9404],
    ['/secret', { width: 9 }, 401, 9408],
    ['/broken', { width: 9 }, 502, 9509],
    ['/unchanged', { width: 9 }, 502, 9408],
    ['/text', { width: 9 }, 415, 9412],
    ['/image.png', { width: -1 }, 400, 9401],
    ['/image.png', { format: 'tiff' }, 400, 9401],
    ['/image.png', { width: 9, draw: [{ top: 1 }] }, 400, 9401],
    [
      '/image.png',
      { width: 9, draw: Array.from({ length: 17 }, () => ({ url: 'http://a.example' })) },
      400,
      9401,
    ],
    ['/image.png', { width: 9, draw: [{ url: originUrl('/missing') }] }, 404, 9404],
    ['/endless', { width: 9 }, 413, 9402],
  ];
  for (const [path, options, status, code] of cases) {
    const response = await fetched(path, options);
    const text = await response.text();
    const name = `${path} ${JSON.stringify(options).slice(0, 80)}: ${text}`;
    assert.deepEqual([response.status, response.headers.get('cf-resized')], [status, `err=${code}`], name);
    assert.match(text, new RegExp(`^ERROR ${code}: `));
  }
});

test('the images service opens no way to other networks, and no binding shows', async () => {
  const response = await fetched('/private', { width: 9 });
  assert.deepEqual([response.status, response.headers.get('cf-resized')], [502, 'err=9504']);
  const names = await (await cellar.open('thumbnails', '/bindings')).json();
  assert.deepEqual(names, ['PICTURES', 'PICTURES', 'PICTURES']);
});

test('results have the size, the format and about the pixels of those of Miniflare', async () => {
  const miniflare = newMiniflare({
    name: 'thumbnails',
    modules: true,
    scriptPath: 'test/apps/fetched-images/index.js',
    compatibilityDate: '2026-10-01',
    durableObjects: { PICTURES: { className: 'Pictures', useSQLite: true } },
  });
  try {
    const url = await miniflare.ready;
    const cases = [
      { width: 50 },
      { width: 400 },
      { width: 20, dpr: 3 },
      { rotate: 90, width: 30 },
      { width: 40, height: 40, fit: 'cover', gravity: 'right' },
      { width: 60, height: 60, fit: 'pad', background: '#00ff00' },
      { width: 60, format: 'jpeg', quality: 90 },
      { width: 60, format: 'webp', quality: 'high' },
    ];
    for (const options of cases) {
      const theirs = await fetch(new URL(pathOf('/image.png', options), url));
      const ours = await fetched('/image.png', options);
      const name = JSON.stringify(options);
      await assertAlike(ours, theirs, name);
    }
  } finally {
    await miniflare.dispose();
  }
});
