// What the binding offers: facts about an image, and transformed images.
import type { Sharp } from 'sharp';
import { colorOf, isOpaque } from './color.ts';
import { guarded, MAX_PIXELS, openImage, requireFormat } from './decoder.ts';
import { failed, invalidOptions, timedOut, tooManyPixels } from './errors.ts';
import { SVG } from './formats.ts';
import { Layer } from './layer.ts';
import type { Draw, Output, Transform } from './options.ts';
import type { TransformCall } from './request.ts';

/** Timeout of the operations of a call, in ms. An operation that has begun may end later. */
const CALL_MS = 30_000;
/** Maximum pixels of a frame in AVIF, whose encoder is slow and cannot be interrupted. */
const AVIF_PIXELS = 2_500_000;
/** Maximum pixels for encoders that choose a palette: they too are slow and cannot be interrupted. */
const PALETTE_PIXELS = 8_000_000;
const SLOW: Partial<Record<Output['output_format'], { name: string; pixels: number }>> = {
  'image/avif': { name: 'AVIF', pixels: AVIF_PIXELS },
  'image/gif': { name: 'GIF', pixels: PALETTE_PIXELS },
};
/** Effort of the AVIF encoder, of ten levels: takes half the time of the default, for a few more bytes. */
const AVIF_EFFORT = 2;
/** Quality unless an app gives one. */
const QUALITY = 85;
/** Quality in AVIF unless an app gives one. The same number means finer details there than in other formats. */
const AVIF_QUALITY = 60;
/** Pixels without a format have no media type of their own. */
const RAW = 'application/octet-stream';
/** Options that sharp applies to every frame. */
const OF_FRAMES = ['imageIndex', 'width', 'height', 'fit', 'background'];

/** Returns the answer of `info()`. @throws {ImagesError} for other bytes than a supported image */
export async function infoOf(image: Buffer): Promise<object> {
  const format = requireFormat(image);
  if (format === SVG) return { format };
  const { size } = await openImage(image, false);
  return { format, file_size: image.length, width: size.width, height: size.height };
}

/** A result, with its size in pixels. The height of an animation counts all frames, one below the other. */
export interface Transformed {
  bytes: Buffer;
  type: string;
  width: number;
  height: number;
}

/** Transforms an image. @throws {ImagesError} for images and options that it cannot process */
export async function transformed({
  images,
  steps,
  output: asked,
  mayBeWebp = false,
}: TransformCall): Promise<Transformed> {
  let output = asked;
  const end = performance.now() + CALL_MS;
  const requireTime = () => {
    if (performance.now() > end) throw timedOut(`a call may take at most ${CALL_MS / 1_000} seconds`);
  };
  const keepsFrames =
    isAnimatedFormat(output) && steps.every((step) => isForFrames(step)) && steps.length < 2;
  const layers: Layer[] = [];
  const layerAt = async (index: number) => {
    layers[index] ??= await Layer.open(images[index]!, requireTime, keepsFrames && index === 0);
    requireTotal(layers);
    return layers[index];
  };
  const canvas = await layerAt(0);
  for (const step of steps) {
    if ('drawImageIndex' in step)
      await (await layerAt(step.targetImageIndex)).draw(await layerAt(step.drawImageIndex), step);
    else await (await layerAt(step.imageIndex)).transform(step);
    requireTotal(layers);
  }
  if (mayBeWebp && output.output_format === 'image/avif' && isSlow(canvas, output))
    output = { ...output, output_format: 'image/webp' };
  requireFast(canvas, output);
  requireTime();
  const { data, info } = await guarded((await encoded(canvas, output)).toBuffer({ resolveWithObject: true }));
  const type = output.output_format.startsWith('rgb') ? RAW : output.output_format;
  return { bytes: data, type, width: info.width, height: info.height };
}

/**
 * Limits the pixels of all layers together, which are in memory at once.
 * @param layers has gaps for images that are not open
 * @throws {ImagesError} for too many pixels
 */
function requireTotal(layers: Layer[]): void {
  const pixels = layers.reduce((sum, layer) => sum + (layer?.pixels ?? 0), 0);
  if (pixels > MAX_PIXELS)
    throw tooManyPixels(
      `the images of a call may have at most ${MAX_PIXELS / 1_000_000} megapixels together`,
    );
}

/** Whether a result takes too long to encode. */
function isSlow({ framePixels }: Layer, { output_format: format }: Output): boolean {
  return framePixels > (SLOW[format]?.pixels ?? Number.POSITIVE_INFINITY);
}

/** @throws {ImagesError} for a result that takes too long to encode */
function requireFast(layer: Layer, output: Output): void {
  if (!isSlow(layer, output)) return;
  const slow = SLOW[output.output_format]!;
  const limit = `${slow.name} may have at most ${slow.pixels / 1_000_000} megapixels`;
  throw invalidOptions(`output(): format: ${limit}; make the image smaller, or choose image/webp`);
}

function isAnimatedFormat({ output_format: format, anim = true }: Output): boolean {
  return anim && (format === 'image/gif' || format === 'image/webp');
}

function isForFrames(step: Transform | Draw): boolean {
  return Object.entries(step).every(([name, value]) => value === undefined || OF_FRAMES.includes(name));
}

async function encoded(
  layer: Layer,
  { output_format: format, output_quality: given, background }: Output,
): Promise<Sharp> {
  const color = background === undefined ? null : await colorOf(background);
  if (color !== null) await layer.fill(color);
  const hasTransparency = format !== 'image/jpeg' && format !== 'rgb';
  if (!hasTransparency && (color === null || !isOpaque(color))) await layer.fill(layer.background);
  const { image, pixels } = layer;
  const quality = given ?? QUALITY;
  switch (format) {
    case 'image/jpeg':
      return image.jpeg({ quality });
    case 'image/png':
      // With a quality, sharp reduces the colours to a palette, as Cloudflare does. That takes too long for large images.
      return image.png(given === undefined || pixels > PALETTE_PIXELS ? {} : { quality });
    case 'image/webp':
      return image.webp({ quality });
    case 'image/avif':
      return image.avif({ quality: given ?? AVIF_QUALITY, effort: AVIF_EFFORT });
    case 'image/gif':
      return image.gif();
    case 'rgb':
      return image.toColourspace('srgb').removeAlpha().raw();
    case 'rgba':
      return image.toColourspace('srgb').ensureAlpha().raw();
    default:
      throw failed(`no encoder for ${format satisfies never}`);
  }
}
