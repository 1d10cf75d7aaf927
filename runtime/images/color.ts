// Colors that lie under an image.
import sharp, { type OverlayOptions } from 'sharp';

/** A color, with `alpha` from 0 (transparent) to 1. */
export interface Color {
  r: number;
  g: number;
  b: number;
  alpha: number;
}

export const WHITE: Color = { r: 255, g: 255, b: 255, alpha: 1 };

/** Returns a color that sharp can read. */
export async function colorOf(background: string): Promise<Color> {
  const pixel = sharp({ create: { width: 1, height: 1, channels: 4, background } }).raw();
  const [r, g, b, alpha] = await pixel.toBuffer();
  return { r: r!, g: g!, b: b!, alpha: alpha! / 255 };
}

export function isOpaque({ alpha }: Color): boolean {
  return alpha === 1;
}

/** Returns what sharp draws to add a color under an image. */
export function underlayOf({ r, g, b, alpha }: Color): OverlayOptions {
  const input = Buffer.from([r, g, b, Math.round(alpha * 255)]);
  return { input, raw: { width: 1, height: 1, channels: 4 }, tile: true, blend: 'dest-over' };
}
