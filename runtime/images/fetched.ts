// Serves `fetch()` with `cf.image`: translates Cloudflare's options to operations of the images service.
import * as z from 'zod';
import { requireFormat } from './decoder.ts';
import { invalidOptions } from './errors.ts';
import { type Format, mayBeAnimated, SVG } from './formats.ts';
import { Draw, type Output, Transform } from './options.ts';
import { checked, imagesOf, jsonOf } from './request.ts';
import { infoOf, type Transformed, transformed } from './transform.ts';

/** Values of `quality` besides numbers. */
const QUALITIES = { low: 35, 'medium-low': 50, 'medium-high': 70, high: 90 };
const FORMATS = {
  avif: 'image/avif',
  webp: 'image/webp',
  jpeg: 'image/jpeg',
  'baseline-jpeg': 'image/jpeg',
  png: 'image/png',
  'png-force': 'image/png',
} as const;

type Asked = 'auto' | 'json' | keyof typeof FORMATS;
const AVIF = ['image/avif'] as const;
const WEBP = ['image/webp'] as const;
/** The name of the options in error messages. */
const WHAT = 'cf.image';

const Fetched = Transform.omit({ imageIndex: true }).extend({
  format: z.enum(['auto', 'json', ...Object.keys(FORMATS)] as Asked[]).nullish(),
  quality: z
    .union([
      z.number().min(1).max(100).transform(Math.round),
      z.enum(['low', 'medium-low', 'medium-high', 'high']).transform((name) => QUALITIES[name]),
    ])
    .nullish(),
  compression: z.literal('fast').nullish(),
  anim: z.boolean().nullish(),
  draw: z.array(z.looseObject({})).nullish(),
});
const Density = z.object({ dpr: z.number().min(0.1).max(10).nullish() });

/** Options in pixels, which `dpr` (the density of the screen) multiplies. */
const LENGTHS = ['width', 'height', 'top', 'bottom', 'left', 'right'];

interface Answer {
  type: string;
  bytes: Buffer;
}

/** What decides the media type of a result. */
interface Wanted {
  format: Asked | null | undefined;
  source: Format;
  isAnimated: boolean;
  /** The header `accept` of the visitor; empty for none. */
  accept: string;
}

/**
 * Returns the transformed image of a call, or its size and facts about the original (`format: 'json'`).
 * @throws {ImagesError} for images and options that cannot be processed
 */
export async function fetchedAnswer(form: FormData): Promise<Answer> {
  const images = await imagesOf(form);
  const given = jsonOf(form.get('options'));
  const { dpr } = checked(Density, given, WHAT);
  const { draw, format, quality, compression, anim, ...canvas } = checked(
    Fetched,
    scaled(given, dpr ?? 1),
    WHAT,
  );
  const drawn = (draw ?? []).flatMap((each, at) => [
    checked(Transform, { ...each, imageIndex: at + 1 }, `${WHAT}: draw`),
    checked(Draw, { ...each, drawImageIndex: at + 1, targetImageIndex: 0 }, `${WHAT}: draw`),
  ]);
  if (drawn.length !== 2 * (images.length - 1)) throw invalidOptions(`${WHAT}: draw: an image is missing`);
  const source = requireFormat(images[0]!);
  const accept = form.get('accept');
  const isAnimated = anim !== false && mayBeAnimated(images[0]!);
  const output = typeOf({ format, source, isAnimated, accept: typeof accept === 'string' ? accept : '' });
  const isFast = compression === 'fast' && (output === 'image/webp' || output === 'image/avif');
  const result = await transformed({
    images,
    steps: [{ imageIndex: 0, ...canvas }, ...drawn],
    output: {
      output_format: isFast ? 'image/jpeg' : output,
      output_quality: quality ?? undefined,
      anim: anim ?? undefined,
      background: undefined,
    },
    mayBeWebp: true,
  });
  return format === 'json' ? factsOf(images[0]!, result) : result;
}

/** Multiplies the options named in `LENGTHS` by `dpr`. @param within names of options that contain such options */
function scaled(options: unknown, dpr: number, within = ['trim', 'border']): unknown {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) return options;
  return Object.fromEntries(
    Object.entries(options).map(([name, value]) => {
      if (LENGTHS.includes(name) && typeof value === 'number') return [name, value * dpr];
      return [name, within.includes(name) ? scaled(value, dpr, []) : value];
    }),
  );
}

/** Returns the media type of the result. If no format is given, it is that of the original. */
function typeOf({ format, source, isAnimated, accept }: Wanted): Output['output_format'] {
  // With `json` only facts about the result are returned, so any encoding will do. An SVG is refused before it is encoded.
  if (format === 'json' || source === SVG) return 'image/jpeg';
  if (format === 'auto') {
    // An AVIF has one frame here.
    const better = isAnimated ? WEBP : [...AVIF, ...WEBP];
    return better.find((type) => accept.includes(type)) ?? source;
  }
  return format ? FORMATS[format] : source;
}

async function factsOf(original: Buffer, { width, height }: Transformed): Promise<Answer> {
  const facts = { width, height, original: await infoOf(original) };
  return { type: 'application/json', bytes: Buffer.from(JSON.stringify(facts)) };
}
