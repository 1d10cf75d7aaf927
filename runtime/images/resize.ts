// Resizes images, and calculates the sizes that result.
import type { Region, ResizeOptions, Sharp } from 'sharp';
import { requirePixels, type Size } from './decoder.ts';
import { invalidOptions } from './errors.ts';
import { MAX_SIDE, type Transform } from './options.ts';

type Box = Pick<Transform, 'width' | 'height'>;

/**
 * Returns the largest size that an image can have after the resizing.
 * @throws {ImagesError} when this size is too large, or that of the resized image before it is cropped
 */
export function sizeAfter(from: Size, { width, height, fit = 'scale-down' }: Transform, frames = 1): Size {
  if (width === undefined && height === undefined) return from;
  const ratios = ratiosOf(from, { width, height });
  const isShrinking = fit === 'scale-down' || fit === 'crop';
  if (fit === 'cover') {
    const scale = Math.max(...ratios);
    requirePixels({ width: from.width * scale, height: from.height * scale }, frames);
  }
  const scale = isShrinking ? Math.min(1, ...ratios) : Math.min(...ratios);
  const to = {
    width: width ?? Math.ceil(from.width * scale),
    height: height ?? Math.ceil(from.height * scale),
  };
  const size = isShrinking
    ? { width: Math.min(to.width, from.width), height: Math.min(to.height, from.height) }
    : to;
  if (Math.max(size.width, size.height) > MAX_SIDE)
    throw invalidOptions(`a result may have at most ${MAX_SIDE} pixels a side`);
  requirePixels(size, frames);
  return size;
}

/** Resizes an image of a known size. */
export function resize(image: Sharp, from: Size, transform: Transform): void {
  const { width, height, fit, gravity, background } = transform;
  if (width === undefined && height === undefined) return;
  const [mode, withoutEnlargement] = FITS[fit ?? 'scale-down'];
  const region = mode === 'cover' ? regionOf(from, transform, withoutEnlargement) : null;
  if (region !== null) image.extract(region);
  const other = mode === 'fill' ? sizeAfter(from, transform) : { width, height };
  image.resize({
    ...(other.width !== undefined && { width: other.width }),
    ...(other.height !== undefined && { height: other.height }),
    fit: mode,
    withoutEnlargement,
    ...(typeof gravity === 'string' && { position: POSITIONS[gravity] }),
    background: background ?? '#ffffff',
  });
}

const FITS: Record<
  NonNullable<Transform['fit']>,
  [mode: NonNullable<ResizeOptions['fit']>, withoutEnlargement: boolean]
> = {
  'scale-down': ['inside', true],
  contain: ['inside', false],
  cover: ['cover', false],
  crop: ['cover', true],
  pad: ['contain', false],
  squeeze: ['fill', false],
};

/** `face` cannot recognize faces: `attention` finds skin tones and details, which are usually there. */
const POSITIONS: Record<Extract<Transform['gravity'], string>, string> = {
  left: 'left',
  right: 'right',
  top: 'top',
  bottom: 'bottom',
  center: 'centre',
  entropy: 'entropy',
  auto: 'attention',
  face: 'attention',
};

/** Returns the part of an image that is kept around a point; null without a point, a width or a height. */
function regionOf(from: Size, { width, height, gravity }: Transform, isShrinking: boolean): Region | null {
  if (typeof gravity !== 'object' || width === undefined || height === undefined) return null;
  const ratio = Math.max(...ratiosOf(from, { width, height }));
  const scale = isShrinking ? Math.min(1, ratio) : ratio;
  const kept = {
    width: Math.max(1, Math.min(from.width, Math.round(width / scale))),
    height: Math.max(1, Math.min(from.height, Math.round(height / scale))),
  };
  const { x = 0.5, y = 0.5, mode } = gravity;
  const startOf = (whole: number, part: number, at: number) =>
    mode === 'box-center'
      ? Math.round(Math.min(whole - part, Math.max(0, whole * at - part / 2)))
      : Math.round((whole - part) * at);
  return {
    ...kept,
    left: startOf(from.width, kept.width, x),
    top: startOf(from.height, kept.height, y),
  };
}

function ratiosOf(from: Size, { width, height }: Box): number[] {
  return [
    ...(width === undefined ? [] : [width / from.width]),
    ...(height === undefined ? [] : [height / from.height]),
  ];
}
