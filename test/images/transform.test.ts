// Transformations of images: sizes, colors, formats, and images that are made to do harm.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import sharp from 'sharp';
import { timedOut } from '../../runtime/images/errors.ts';
import { Layer } from '../../runtime/images/layer.ts';
import { Transform } from '../../runtime/images/options.ts';
import { formOf, transformCallOf } from '../../runtime/images/request.ts';
import { infoOf, transformed } from '../../runtime/images/transform.ts';
import { formWith, plain } from '../support/images/forms.ts';

/** Transforms images by the request that the app's binding sends. */
async function run(images: Uint8Array[], steps: object[], output: Record<string, string> = {}) {
  const fields = { transforms: JSON.stringify(steps), output_format: 'image/png', ...output };
  const { headers, body } = await formWith(images, fields);
  return transformed(await transformCallOf(await formOf(Buffer.from(body), headers['content-type'])));
}

async function sizeOf(bytes: Buffer): Promise<string> {
  const { width, height } = await sharp(bytes).metadata();
  return `${width}×${height}`;
}

/** Returns the color of a pixel as `r,g,b,a`. */
async function colorAt(bytes: Buffer, left: number, top: number): Promise<string> {
  const pixel = sharp(bytes).ensureAlpha().extract({ left, top, width: 1, height: 1 }).raw();
  return [...(await pixel.toBuffer())].join(',');
}

const RED = '255,0,0,255';
const BLUE = '0,0,255,255';
const WHITE = '255,255,255,255';
const CLEAR = '0,0,0,0';

test('info names the format, the size and the bytes', async () => {
  const png = await plain(30, 20, 'red');
  assert.deepEqual(await infoOf(png), {
    format: 'image/png',
    file_size: png.length,
    width: 30,
    height: 20,
  });
  const turned = await sharp(png).jpeg().withMetadata({ orientation: 6 }).toBuffer();
  assert.partialDeepStrictEqual(await infoOf(turned), { format: 'image/jpeg', width: 20, height: 30 });
  for (const format of ['gif', 'webp', 'avif'] as const)
    assert.partialDeepStrictEqual(await infoOf(await sharp(png).toFormat(format).toBuffer()), {
      format: `image/${format}`,
      width: 30,
    });
  assert.deepEqual(await infoOf(Buffer.from('<?xml version="1.0"?>\n<svg width="9"/>')), {
    format: 'image/svg+xml',
  });
});

/** Options, and the size that an image of 200 × 100 pixels gets with them. */
const SIZES: [options: object, size: string][] = [
  [{ width: 100 }, '100×50'],
  [{ height: 20 }, '40×20'],
  [{ width: 400 }, '200×100'],
  [{ width: 400, fit: 'contain' }, '400×200'],
  [{ width: 50, height: 50, fit: 'contain' }, '50×25'],
  [{ width: 50, height: 50, fit: 'cover' }, '50×50'],
  [{ width: 300, height: 300, fit: 'cover', gravity: { x: 1, y: 0, mode: 'remainder' } }, '300×300'],
  [{ width: 50, height: 50, fit: 'crop' }, '50×50'],
  [{ width: 50, height: 50, fit: 'pad' }, '50×50'],
  [{ width: 50, height: 90, fit: 'squeeze' }, '50×90'],
  [{ width: 50, height: null, fit: null }, '50×25'],
  [{ rotate: 90 }, '100×200'],
  [{ rotate: 90, width: 50 }, '50×100'],
  [{ trim: { left: 20, top: 10, right: 30 } }, '150×90'],
  [{ trim: { width: 20 } }, '20×100'],
  [{ border: { color: 'red', width: 5 }, width: 100 }, '110×60'],
];

for (const [options, size] of SIZES)
  test(`${JSON.stringify(options)} makes ${size} pixels of 200 × 100`, async () => {
    const { bytes } = await run([await plain(200, 100, 'red')], [{ imageIndex: 0, ...options }]);
    assert.equal(await sizeOf(bytes), size);
  });

test('operations run in their order', async () => {
  const steps = [{ rotate: 90 }, { width: 50 }, { rotate: 90 }].map((step) => ({ imageIndex: 0, ...step }));
  const { bytes } = await run([await plain(200, 100, 'red')], steps);
  assert.equal(await sizeOf(bytes), '100×50');
});

test('an image is flipped before it is rotated', async () => {
  const left = await sharp(await plain(20, 10, 'blue'))
    .composite([{ input: await plain(10, 10, 'red'), left: 0, top: 0 }])
    .png()
    .toBuffer();
  const { bytes } = await run([left], [{ imageIndex: 0, flip: 'h', rotate: 90 }]);
  assert.equal(await colorAt(bytes, 5, 2), BLUE);
  assert.equal(await colorAt(bytes, 5, 17), RED);
});

test('the part around a point is kept', async () => {
  const image = await sharp(await plain(100, 50, 'red'))
    .composite([{ input: await plain(50, 50, 'blue'), left: 50, top: 0 }])
    .png()
    .toBuffer();
  const options = { imageIndex: 0, width: 20, height: 20, fit: 'cover' };
  const right = await run([image], [{ ...options, gravity: { x: 1, y: 0.5, mode: 'remainder' } }]);
  assert.equal(await colorAt(right.bytes, 2, 10), BLUE);
  const start = await run([image], [{ ...options, gravity: 'left' }]);
  assert.equal(await colorAt(start.bytes, 2, 10), RED);
});

test('a photo is turned upright before anything else', async () => {
  const sideways = await sharp(await plain(50, 100, 'red'))
    .composite([{ input: await plain(50, 50, 'blue'), left: 0, top: 0 }])
    .png()
    .withMetadata({ orientation: 6 })
    .toBuffer();
  const cover = { width: 20, height: 20, fit: 'cover', gravity: { x: 1, y: 0.5, mode: 'remainder' } };
  const cases: [options: object, size: string, at: [number, number]][] = [
    [{}, '100×50', [95, 25]],
    [{ trim: { left: 60 } }, '40×50', [20, 25]],
    [cover, '20×20', [10, 10]],
    [{ rotate: 90 }, '50×100', [25, 95]],
    [{ flip: 'h' }, '100×50', [5, 25]],
  ];
  for (const [options, size, at] of cases) {
    const { bytes } = await run([sideways], [{ imageIndex: 0, ...options }]);
    assert.equal(await sizeOf(bytes), size, JSON.stringify(options));
    assert.equal(await colorAt(bytes, ...at), BLUE, JSON.stringify(options));
  }
});

test('an image is drawn where its offsets say, and what lies outside is cut', async () => {
  const images = [await plain(100, 100, 'red'), await plain(20, 20, 'blue')];
  const draw = (options: object) => run(images, [{ drawImageIndex: 1, targetImageIndex: 0, ...options }]);
  const cases: [options: object, inside: [number, number], outside: [number, number]][] = [
    [{}, [50, 50], [5, 5]],
    [{ left: 0, top: 0 }, [5, 5], [50, 50]],
    [{ right: 0, bottom: 0 }, [95, 95], [50, 50]],
    [{ left: -10, top: -10 }, [5, 5], [15, 15]],
    [{ repeat: true }, [97, 3], [-1, -1]],
    [{ repeat: 'x', top: 0 }, [97, 3], [50, 50]],
    [{ left: 500 }, [-1, -1], [50, 50]],
  ];
  for (const [options, inside, outside] of cases) {
    const { bytes } = await draw(options);
    const name = JSON.stringify(options);
    if (inside[0] >= 0) assert.equal(await colorAt(bytes, ...inside), BLUE, name);
    if (outside[0] >= 0) assert.equal(await colorAt(bytes, ...outside), RED, name);
  }
  const veiled = await colorAt((await draw({ opacity: 0.5 })).bytes, 50, 50);
  assert.match(veiled, /^12[678],0,12[789],255$/);
});

test('an image that is drawn is transformed first', async () => {
  const images = [await plain(100, 100, 'red'), await plain(20, 20, 'blue')];
  const { bytes } = await run(images, [
    { imageIndex: 1, width: 60, fit: 'contain' },
    { drawImageIndex: 1, targetImageIndex: 0, left: 0, top: 0 },
    { imageIndex: 0, width: 50 },
  ]);
  assert.equal(await sizeOf(bytes), '50×50');
  assert.equal(await colorAt(bytes, 25, 25), BLUE);
  assert.equal(await colorAt(bytes, 40, 40), RED);
});

test('every output format is encoded, and transparency becomes white where there is none', async () => {
  const clear = await plain(8, 8, 'transparent');
  for (const format of ['jpeg', 'png', 'gif', 'webp', 'avif']) {
    const { bytes, type } = await run([clear], [], {
      output_format: `image/${format}`,
      output_quality: '50',
    });
    assert.equal(type, `image/${format}`);
    assert.partialDeepStrictEqual(await infoOf(bytes), { format: `image/${format}`, width: 8 });
  }
  const jpeg = await run([clear], [], { output_format: 'image/jpeg' });
  assert.equal(await colorAt(jpeg.bytes, 4, 4), WHITE);
  assert.equal((await run([clear], [], { output_format: 'rgb', background: 'blue' })).bytes[2], 255);
  assert.equal((await run([clear], [], { output_format: 'rgba' })).bytes.length, 8 * 8 * 4);
});

/** Returns the colors of pixels, without the small differences that encoders make. A transparent pixel has any color. */
async function colorsAt(bytes: Buffer, points: [left: number, top: number][]): Promise<string[]> {
  const near = (value: string) => (Math.abs(Number(value) - 128) < 4 ? '128' : value);
  const exact = (value: string) => (Number(value) < 4 ? '0' : Number(value) > 251 ? '255' : near(value));
  const colors = await Promise.all(points.map(([left, top]) => colorAt(bytes, left, top)));
  return colors.map((color) => (color.endsWith(',0') ? CLEAR : color.split(',').map(exact).join(',')));
}

test('a background stays when the output has no transparency', async () => {
  const clear = await plain(16, 16, 'transparent');
  const cases: [steps: object[], background: string | null, color: string][] = [
    [[{ background: 'red' }], null, RED],
    [[{ background: 'red', width: 8 }], null, RED],
    [[{ background: 'red' }, { width: 8 }], null, RED],
    [[{ background: 'blue' }, { background: 'red' }], null, BLUE],
    [[{ background: 'red' }], 'blue', RED],
    [[{ width: 8 }], 'blue', BLUE],
    [[{ brightness: 0.5 }], null, WHITE],
  ];
  for (const [steps, background, color] of cases)
    for (const output_format of ['image/jpeg', 'rgb']) {
      const output = { output_format, output_quality: '100', ...(background !== null && { background }) };
      const { bytes, width, height } = await run(
        [clear],
        steps.map((step) => ({ imageIndex: 0, ...step })),
        output,
      );
      const raw = { width, height, channels: 3 } as const;
      const png = output_format === 'rgb' ? await sharp(bytes, { raw }).png().toBuffer() : bytes;
      assert.deepEqual(await colorsAt(png, [[4, 4]]), [color], JSON.stringify([steps, output]));
    }
});

test('a background lies under the image, and under what surrounds it', async () => {
  // The upper half is transparent, the lower half blue.
  const half = await sharp(await plain(32, 32, 'transparent'))
    .composite([{ input: await plain(32, 16, 'blue'), left: 0, top: 16 }])
    .png()
    .toBuffer();
  const VEIL = '255,0,0,128';
  const PINK = '255,128,128,255';
  const veil = 'rgba(255, 0, 0, 0.5)';
  const pad = { width: 64, height: 32, fit: 'pad' };
  const border = { color: 'transparent', width: 16 };
  /** Colors beside the image, in its upper half, and in its lower half. */
  type Colors = [beside: string, upper: string, lower: string];
  const cases: [step: object, output: Record<string, string>, colors: Colors][] = [
    [{ ...pad, background: 'red' }, {}, [RED, RED, BLUE]],
    [{ ...pad, background: 'transparent' }, {}, [CLEAR, CLEAR, BLUE]],
    [{ ...pad, background: veil }, {}, [VEIL, VEIL, BLUE]],
    [{ ...pad }, {}, [WHITE, CLEAR, BLUE]],
    [{ background: 'red', border }, {}, [CLEAR, RED, BLUE]],
    [{ background: 'transparent', border }, {}, [CLEAR, CLEAR, BLUE]],
    [{ ...pad, background: 'transparent' }, { background: 'red' }, [RED, RED, BLUE]],
    [{ ...pad, background: 'transparent' }, { background: veil }, [VEIL, VEIL, BLUE]],
    [{ ...pad, background: 'red' }, { background: 'transparent' }, [RED, RED, BLUE]],
    [{ ...pad, background: 'red' }, { output_format: 'image/jpeg' }, [RED, RED, BLUE]],
    [{ ...pad, background: 'transparent' }, { output_format: 'image/jpeg' }, [WHITE, WHITE, BLUE]],
    [{ ...pad, background: veil }, { output_format: 'image/jpeg' }, [PINK, PINK, BLUE]],
    [{ border }, { output_format: 'image/jpeg' }, [WHITE, WHITE, BLUE]],
    [{ border }, { output_format: 'image/jpeg', background: 'red' }, [RED, RED, BLUE]],
    [{ border }, { output_format: 'image/jpeg', background: veil }, [PINK, PINK, BLUE]],
    [{ border }, { output_format: 'image/jpeg', background: 'transparent' }, [WHITE, WHITE, BLUE]],
    [{ border, background: 'red' }, { output_format: 'image/jpeg' }, [RED, RED, BLUE]],
  ];
  const top = (step: object) => ('border' in step ? 16 : 0);
  for (const [step, output, colors] of cases) {
    const { bytes } = await run([half], [{ imageIndex: 0, ...step }], { output_quality: '100', ...output });
    const points: [number, number][] = [
      [4, 4],
      [32, top(step) + 4],
      [32, top(step) + 28],
    ];
    assert.deepEqual(await colorsAt(bytes, points), colors, JSON.stringify([step, output]));
  }
});

test('a color stays a color on an image in shades of grey', async () => {
  const clear = sharp(await plain(32, 32, 'transparent'));
  const images = {
    grey: await clear.clone().toColourspace('b-w').png().toBuffer(),
    'grey, 16 bits': await clear.clone().toColourspace('grey16').png().toBuffer(),
    '16 bits': await clear.clone().toColourspace('rgb16').png().toBuffer(),
    palette: await clear.clone().png({ palette: true }).toBuffer(),
  };
  const pad = { width: 64, height: 32, fit: 'pad' };
  const cases: [step: object, output: Record<string, string>][] = [
    [{ background: 'red' }, {}],
    [{ ...pad, background: 'red' }, {}],
    [{ ...pad, background: 'transparent' }, { background: 'red' }],
    [{ rotate: 90, background: 'red' }, {}],
    [{ border: { color: 'red', width: 8 } }, {}],
  ];
  for (const [kind, image] of Object.entries(images)) {
    for (const [step, output] of cases) {
      const { bytes } = await run([image], [{ imageIndex: 0, ...step }], output);
      assert.deepEqual(await colorsAt(bytes, [[4, 4]]), [RED], JSON.stringify([kind, step, output]));
    }
    const { bytes } = await run([image], [], { background: 'red' });
    assert.deepEqual(await colorsAt(bytes, [[4, 4]]), [RED], kind);
  }
});

test('each frame of an animation has the background', async () => {
  const frames = await Promise.all(['transparent', 'blue'].map((color) => plain(32, 32, color)));
  const image = await sharp(frames, { join: { animated: true } })
    .webp({ lossless: true })
    .toBuffer();
  const VEIL = '255,0,0,128';
  const veil = 'rgba(255, 0, 0, 0.5)';
  const cases: [background: string, output: Record<string, string>, beside: string, inside: string][] = [
    ['red', {}, RED, RED],
    [veil, {}, VEIL, VEIL],
    ['transparent', {}, CLEAR, CLEAR],
    ['transparent', { background: 'red' }, RED, RED],
    [veil, { background: 'blue' }, '128,0,128,255', '128,0,128,255'],
  ];
  for (const [background, output, beside, inside] of cases) {
    const step = { imageIndex: 0, width: 64, height: 32, fit: 'pad', background };
    const { bytes } = await run([image], [step], {
      output_format: 'image/webp',
      output_quality: '100',
      ...output,
    });
    assert.equal((await sharp(bytes).metadata()).pages, 2);
    for (const [page, color] of [inside, BLUE].entries()) {
      const frame = await sharp(bytes, { page }).png().toBuffer();
      const message = JSON.stringify([background, output, page]);
      assert.deepEqual(
        await colorsAt(frame, [
          [4, 16],
          [32, 16],
        ]),
        [beside, color],
        message,
      );
    }
  }
});

test('an animation keeps its frames unless the app asks for one', async () => {
  const frames = await Promise.all(['red', 'blue'].map((color) => plain(40, 40, color)));
  const gif = await sharp(frames, { join: { animated: true } })
    .gif()
    .toBuffer();
  const small = (output: Record<string, string>) => run([gif], [{ imageIndex: 0, width: 20 }], output);
  const pagesOf = async (output: Record<string, string>) =>
    (await sharp((await small(output)).bytes).metadata()).pages ?? 1;
  assert.equal(await pagesOf({ output_format: 'image/webp' }), 2);
  assert.equal(await pagesOf({ output_format: 'image/gif', anim: 'false' }), 1);
  assert.equal(await pagesOf({ output_format: 'image/png' }), 1);
});

/** Returns a PNG whose header states another size than it has. */
function pretended(png: Buffer, width: number, height: number): Buffer {
  const changed = Buffer.from(png);
  changed.writeUInt32BE(width, 16);
  changed.writeUInt32BE(height, 20);
  const { crc32 } = process.getBuiltinModule('node:zlib');
  changed.writeUInt32BE(crc32(changed.subarray(12, 29)), 29);
  return changed;
}

test('images that are too large, damaged or no images are refused', async () => {
  const png = await plain(100, 100, 'red');
  const bomb = await sharp({ create: { width: 9_000, height: 9_000, channels: 3, background: 'red' } })
    .toColourspace('b-w')
    .png({ compressionLevel: 9 })
    .toBuffer();
  assert.ok(bomb.length < 1_000_000, `${bomb.length} bytes become 81 megapixels`);
  const svg = '<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>';
  const tiff = await sharp(png).tiff().toBuffer();
  const cases: [image: Uint8Array, code: number][] = [
    [bomb, 9413],
    [pretended(png, 0x7fffffff, 0x7fffffff), 9523],
    [pretended(png, 50_000, 50_000), 9413],
    [png.subarray(0, png.length / 2), 9523],
    [Buffer.concat([png.subarray(0, 60), Buffer.alloc(500, 7)]), 9523],
    [Buffer.from(svg), 9520],
    [tiff, 9412],
    [Buffer.from('%PDF-1.7'), 9412],
    [Buffer.from('no image'), 9412],
    [Buffer.alloc(0), 9412],
    [Buffer.alloc(1, 255), 9412],
  ];
  for (const [image, code] of cases)
    await assert.rejects(run([image], [{ width: 10, imageIndex: 0 }]), { code });
});

test('a form with too many parts is refused', async () => {
  const image = await plain(8, 8, 'red');
  const draw = (count: number) => run(Array(count + 1).fill(image), [{ imageIndex: 0 }]);
  assert.ok((await draw(16)).bytes.length > 0);
  await assert.rejects(draw(17), { code: 9401, message: 'one call may draw at most 16 images' });
  const tooMany = {
    code: 9401,
    message: 'the form has more than 32 parts: one call may draw at most 16 images',
  };
  await assert.rejects(draw(1_000), tooMany);
  const parts = (count: number) => {
    const form = new FormData();
    for (let part = 0; part < count; part++) form.append('draw_image', 'x');
    return new Response(form);
  };
  const formWith = async (count: number) => {
    const response = parts(count);
    return formOf(Buffer.from(await response.arrayBuffer()), response.headers.get('content-type')!);
  };
  assert.equal((await formWith(32)).getAll('draw_image').length, 32);
  await assert.rejects(formWith(33), tooMany);
  const noForm = { code: 9401, message: /not a form/ };
  for (const type of ['application/x-www-form-urlencoded', 'multipart/form-data; boundary=""'])
    await assert.rejects(formOf(Buffer.from('a&'.repeat(1_000)), type), noForm);
});

/** Options that are refused, and what the error says. */
const REFUSED: [step: object, output: Record<string, string>, message: RegExp][] = [
  [{ width: -1 }, {}, /transform\(\): width/],
  [{ width: 20_000 }, {}, /transform\(\): width/],
  [{ width: '100' }, {}, /transform\(\): width/],
  [{ fit: 'magic' }, {}, /transform\(\): fit/],
  [{ rotate: 45 }, {}, /transform\(\): rotate/],
  [{ blur: 251 }, {}, /transform\(\): blur/],
  [{ segment: 'foreground' }, {}, /transform\(\): segment/],
  [{ background: 'reddish' }, {}, /transform\(\): background: is not a CSS color/],
  [{ border: { color: '' } }, {}, /transform\(\): border.color: is not a CSS color/],
  [{}, { background: 'reddish' }, /output\(\): background: is not a CSS color/],
  [{ trim: { width: 300 } }, {}, /trim: the area must lie within the 200 × 100/],
  [{ imageIndex: 3 }, {}, /an image to draw is missing/],
  [{}, { output_format: 'image/bmp' }, /output\(\): output_format/],
  [{}, { output_quality: '101' }, /output\(\): output_quality/],
  [
    { width: 12_000, height: 700, fit: 'squeeze' },
    { output_format: 'image/avif' },
    /AVIF may have at most 2.5 megapixels/,
  ],
  [
    { width: 12_000, height: 700, fit: 'squeeze' },
    { output_format: 'image/gif' },
    /GIF may have at most 8 megapixels/,
  ],
];

for (const [step, output, message] of REFUSED)
  test(`${JSON.stringify(step)} with ${JSON.stringify(output)} is refused`, async () => {
    const image = await plain(200, 100, 'red');
    await assert.rejects(run([image], [{ imageIndex: 0, ...step }], output), { code: 9401, message });
  });

test('no options make an image of more pixels than an image may have', async () => {
  const line = await plain(1, 5_000, 'red');
  const sheet = await plain(3_000, 3_000, 'red');
  const enlarge = (options: object) => [{ imageIndex: 0, fit: 'contain', ...options }];
  await assert.rejects(run([line], enlarge({ width: 12_000 })), { code: 9401 });
  await assert.rejects(run([line], enlarge({ width: 12_000, height: 12_000, fit: 'cover' })), { code: 9413 });
  await assert.rejects(run([sheet], enlarge({ width: 12_000 })), { code: 9413 });
  const drawn = [1, 2, 3, 4, 5].map((at) => ({ drawImageIndex: at, targetImageIndex: 0 }));
  await assert.rejects(run(Array(6).fill(sheet), drawn), { code: 9413 });
  await assert.rejects(run([sheet], [...enlarge({ border: { width: 4_000 } })]), { code: 9413 });
  const frames = await Promise.all(['red', 'blue'].map((color) => plain(10, 4_000, color)));
  const lines = await sharp(frames, { join: { animated: true } })
    .gif()
    .toBuffer();
  const covered = [{ imageIndex: 0, width: 300, height: 300, fit: 'cover' }];
  assert.equal(await sizeOf((await run([lines], covered)).bytes), '300×300');
  await assert.rejects(run([lines], covered, { output_format: 'image/webp' }), { code: 9413 });
});

test('no operation begins when the time of a call is over', async () => {
  const requireTime = () => {
    throw timedOut('over');
  };
  const layer = await Layer.open(await plain(20, 10, 'red'), requireTime);
  await assert.rejects(layer.transform(Transform.parse({ imageIndex: 0, rotate: 90 })), { code: 9529 });
});
