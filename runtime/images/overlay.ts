// Where and how an image is drawn on another.
import sharp, { type OverlayOptions, type Sharp } from 'sharp';
import { guarded, type Size } from './decoder.ts';
import type { Draw } from './options.ts';

interface Drawn {
  image: Sharp;
  /** The exact size of `image`, in pixels. */
  size: Size;
}

const BLENDS = { over: 'over', in: 'in', atop: 'atop', out: 'out', xor: 'xor', lighter: 'add' } as const;
const TRANSPARENT = { r: 0, g: 0, b: 0, alpha: 0 };

/** Returns what sharp draws on a canvas; null when the image lies outside. @param drawn without pending operations */
export async function overlayOf(drawn: Drawn, canvas: Size, options: Draw): Promise<OverlayOptions | null> {
  const { opacity = 1, repeat = false, composite = 'over' } = options;
  const isRepeatedAcross = repeat === true || repeat === 'x';
  const isRepeatedDown = repeat === true || repeat === 'y';
  const across = span(drawn.size.width, canvas.width, options.left, options.right, isRepeatedAcross);
  const down = span(drawn.size.height, canvas.height, options.top, options.bottom, isRepeatedDown);
  if (across.length <= 0 || down.length <= 0) return null;
  const visible = { left: across.cut, top: down.cut, width: across.length, height: down.length };
  let part = await pixelsOf(drawn.image.extract(visible));
  if (opacity < 1) {
    const veil = { input: Buffer.from([255, 255, 255, Math.round(opacity * 255)]), tile: true } as const;
    const raw = { width: 1, height: 1, channels: 4 } as const;
    part = await pixelsOf(sharp(part.input, part).composite([{ ...veil, raw, blend: 'dest-in' }]));
  }
  if (isRepeatedAcross || isRepeatedDown) {
    const strip = {
      width: isRepeatedAcross ? canvas.width : across.length,
      height: isRepeatedDown ? canvas.height : down.length,
    };
    const empty = sharp({ create: { ...strip, channels: 4, background: TRANSPARENT } });
    part = await pixelsOf(empty.composite([{ ...part, tile: true, gravity: 'northwest' }]));
  }
  return {
    ...part,
    blend: BLENDS[composite],
    left: isRepeatedAcross ? 0 : across.at,
    top: isRepeatedDown ? 0 : down.at,
  };
}

/**
 * Places an image along one side of a canvas. A repeated image begins at 0, and any other at its offset. Without an offset
 * it is centred.
 * @returns `cut`: number of hidden pixels before the first visible one; `at`: position of that pixel on the canvas;
 * `length`: number of visible pixels, 0 or less when the image lies outside
 */
function span(
  length: number,
  canvas: number,
  start: number | undefined,
  end: number | undefined,
  isRepeated: boolean,
): { cut: number; at: number; length: number } {
  const centered = Math.round((canvas - length) / 2);
  const wanted = start ?? (end === undefined ? centered : canvas - length - end);
  const at = isRepeated ? 0 : wanted;
  const from = Math.max(0, at);
  return { cut: from - at, at: from, length: Math.min(canvas, at + length) - from };
}

async function pixelsOf(image: Sharp) {
  const { data, info } = await guarded(image.ensureAlpha().raw().toBuffer({ resolveWithObject: true }));
  const { width, height, channels } = info;
  return { input: data, raw: { width, height, channels } };
}
