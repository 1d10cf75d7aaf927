// Opens images with sharp, within limits on pixels and time.
import sharp, { type Sharp, type SharpOptions } from 'sharp';
import { failed, ImagesError, notAnImage, timedOut, tooManyPixels, unsupportedFormat } from './errors.ts';
import { type Format, formatOf, SVG } from './formats.ts';

/** Maximum pixels of an image, all frames together. A decoded pixel has four bytes. */
export const MAX_PIXELS = 50_000_000;
/** Timeout of one operation, in s. */
const OPERATION_S = 20;

// A cache is useless, because different calls have different images. Each operation has one thread, so that only the queue
// in `program.ts` decides how many processors are used.
sharp.cache(false);
sharp.concurrency(1);
// Only the decoders of recognized formats may run.
sharp.block({ operation: ['VipsForeignLoad'] });
sharp.unblock({
  operation: [
    'VipsForeignLoadJpegBuffer',
    'VipsForeignLoadPngBuffer',
    'VipsForeignLoadNsgifBuffer',
    'VipsForeignLoadWebpBuffer',
    'VipsForeignLoadHeifBuffer',
  ],
});

export interface Size {
  width: number;
  height: number;
}

/** Opens pixels, or an image whose format was checked. */
export function open(bytes: Buffer, options: SharpOptions = {}): Sharp {
  const limits = { limitInputPixels: MAX_PIXELS, failOn: 'error' } as const;
  return sharp(bytes, { ...limits, ...options }).timeout({ seconds: OPERATION_S });
}

/** Returns the format of an image. @throws {ImagesError} for bytes that are not a supported image */
export function requireFormat(bytes: Buffer): Format {
  const format = formatOf(bytes);
  if (format === null) throw notAnImage('the bytes are not an image in JPEG, PNG, GIF, WebP, AVIF or SVG');
  return format;
}

/** Opens an image that an app sent, turned upright. @throws {ImagesError} when it is damaged, too large, or not supported */
export async function openImage(
  bytes: Buffer,
  isAnimated: boolean,
): Promise<{ image: Sharp; size: Size; frames: number; isGrey: boolean }> {
  if (requireFormat(bytes) === SVG)
    throw unsupportedFormat('an SVG is not transformed: it has every size, so serve it as it is');
  const image = open(bytes, { autoOrient: true, animated: isAnimated });
  const { autoOrient, pages = 1, pageHeight, space } = await guarded(image.metadata());
  const frames = isAnimated ? pages : 1;
  const size = { width: autoOrient.width, height: pageHeight ?? autoOrient.height };
  requirePixels(size, frames);
  return { image, size, frames, isGrey: space === 'b-w' || space === 'grey16' };
}

/** @throws {ImagesError} when an image of this size is too large to decode */
export function requirePixels({ width, height }: Size, frames = 1): void {
  if (width * height * frames > MAX_PIXELS)
    throw tooManyPixels(
      `an image may have at most ${MAX_PIXELS / 1_000_000} megapixels, all frames together`,
    );
}

/** Waits for an operation of sharp. @throws {ImagesError} in place of its errors */
export async function guarded<T>(operation: Promise<T>): Promise<T> {
  try {
    return await operation;
  } catch (error) {
    if (error instanceof ImagesError) throw error;
    const { message } = error as Error;
    if (/pixel limit/.test(message)) requirePixels({ width: MAX_PIXELS, height: 2 });
    if (/timeout/.test(message)) throw timedOut(`an operation may take at most ${OPERATION_S} seconds`);
    throw failed('the image is damaged, or cannot be processed with these options');
  }
}
