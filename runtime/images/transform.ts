// What the binding offers: facts about an image, and transformed images.
import type { Sharp } from 'sharp';
import { guarded, openImage, requireFormat } from './decoder.ts';
import { failed, invalidOptions } from './errors.ts';
import { SVG } from './formats.ts';
import { Layer } from './layer.ts';
import type { Draw, Output, Transform } from './options.ts';
import type { TransformCall } from './request.ts';

/** Maximum pixels of an AVIF. Its encoder takes seconds for a megapixel, and cannot be interrupted. */
const AVIF_PIXELS = 8_000_000;
/** Quality unless an app gives one. The same number means finer details in AVIF. */
const QUALITY = 85;
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

/** Transforms an image. @throws {ImagesError} for images and options that it cannot process */
export async function transformed({ images, steps, output }: TransformCall): Promise<{
  bytes: Buffer;
  type: string;
}> {
  const keepsFrames =
    isAnimatedFormat(output) && steps.every((step) => isForFrames(step)) && steps.length < 2;
  const layers: Layer[] = [];
  const layerAt = async (index: number) =>
    (layers[index] ??= await Layer.open(images[index]!, keepsFrames && index === 0));
  const canvas = await layerAt(0);
  for (const step of steps) {
    if ('drawImageIndex' in step)
      await (await layerAt(step.targetImageIndex)).draw(await layerAt(step.drawImageIndex), step);
    else await (await layerAt(step.imageIndex)).transform(step);
  }
  if (output.output_format === 'image/avif' && canvas.pixels > AVIF_PIXELS)
    throw invalidOptions(
      `output(): format: AVIF may have ${AVIF_PIXELS / 1_000_000} megapixels; make the image smaller, or choose image/webp`,
    );
  const bytes = await guarded(encoded(canvas.image, output).toBuffer());
  return { bytes, type: output.output_format.startsWith('rgb') ? RAW : output.output_format };
}

function isAnimatedFormat({ output_format: format, anim = true }: Output): boolean {
  return anim && (format === 'image/gif' || format === 'image/webp');
}

function isForFrames(step: Transform | Draw): boolean {
  return Object.entries(step).every(([name, value]) => value === undefined || OF_FRAMES.includes(name));
}

function encoded(image: Sharp, { output_format: format, output_quality: given, background }: Output): Sharp {
  const quality = given ?? QUALITY;
  const isOpaque = format === 'image/jpeg' || format === 'rgb';
  if (background !== undefined || isOpaque) image.flatten({ background: background ?? '#ffffff' });
  switch (format) {
    case 'image/jpeg':
      return image.jpeg({ quality });
    case 'image/png':
      // sharp reduces the colors when it gets a quality, as Cloudflare does.
      return image.png(given === undefined ? {} : { quality });
    case 'image/webp':
      return image.webp({ quality });
    case 'image/avif':
      return image.avif({ quality: given ?? AVIF_QUALITY });
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
