// An image of a call: the canvas, or an image that is drawn on another. sharp runs the last operation together with the
// encoding.
import type { OverlayOptions, Sharp } from 'sharp';
import { type Color, colorOf, isOpaque, underlayOf, WHITE } from './color.ts';
import { guarded, open, openImage, requirePixels, type Size } from './decoder.ts';
import { invalidOptions } from './errors.ts';
import { type Draw, MAX_SIDE, type Transform, type Trim } from './options.ts';
import { overlayOf } from './overlay.ts';
import { resize, sizeAfter } from './resize.ts';

export class Layer {
  #image: Sharp;
  /** The exact size; with pending operations, the largest size that they can result in. */
  #size: Size;
  readonly #frames: number;
  readonly #requireTime: () => void;
  #isPending = false;
  /** Whether the pixels have no colors yet: sharp would add a shade of grey in place of a color. */
  #isGrey: boolean;
  /** What a pending operation draws: sharp keeps only the last list that it gets. */
  #overlays: OverlayOptions[] = [];
  #background = WHITE;

  private constructor(
    { image, size, frames, isGrey }: Awaited<ReturnType<typeof openImage>>,
    requireTime: () => void,
  ) {
    this.#image = image;
    this.#size = size;
    this.#frames = frames;
    this.#isGrey = isGrey;
    this.#requireTime = requireTime;
  }

  /**
   * Opens an image that an app sent.
   * @param requireTime throws when no further operation may begin
   * @param isAnimated whether its frames are kept; then it can only be resized
   */
  static async open(bytes: Buffer, requireTime: () => void, isAnimated = false): Promise<Layer> {
    return new Layer(await openImage(bytes, isAnimated), requireTime);
  }

  /** The largest number of pixels that the image can have, all frames together. */
  get pixels(): number {
    return this.framePixels * this.#frames;
  }

  /** The largest number of pixels that one frame can have. */
  get framePixels(): number {
    return this.#size.width * this.#size.height;
  }

  /** The color for a format without transparency: the last background of a transformation, if it is opaque, else white. */
  get background(): Color {
    return this.#background;
  }

  /** The image with its pending operations, for the encoder. */
  get image(): Sharp {
    return this.#image;
  }

  /**
   * Runs the pending operations, then adds one.
   * @throws {ImagesError} when the added one does not fit the image, or its result is too large
   */
  async transform(transform: Transform): Promise<void> {
    const { background, border } = transform;
    const hasColor = (background ?? border?.color) !== undefined;
    if (this.#isPending || (this.#isGrey && hasColor)) await this.#settle();
    if (transform.trim !== undefined) await this.#trim(transform.trim);
    await this.#turn(transform);
    const color = background === undefined ? null : await colorOf(background);
    const size = sizeAfter(this.#size, transform, this.#frames);
    // A translucent color is added once, under the image and its bars.
    const isTranslucent = color !== null && !isOpaque(color);
    resize(this.#image, this.#size, isTranslucent ? { ...transform, background: 'transparent' } : transform);
    adjust(this.#image, transform);
    if (color !== null) {
      this.#underlay(color);
      this.#background = isTranslucent ? WHITE : color;
    }
    this.#size = size;
    this.#isPending = true;
    this.#extend(border);
  }

  /** Draws another image on this one. */
  async draw(other: Layer, options: Draw): Promise<void> {
    await this.#settle();
    await other.#settle();
    const overlay = await overlayOf({ image: other.#image, size: other.#size }, this.#size, options);
    if (overlay === null) return;
    this.#composite(overlay);
    this.#isPending = true;
  }

  /** Adds a color under the image, after the pending operations. */
  async fill(color: Color): Promise<void> {
    // sharp would flatten before the pending operations. Those of an animation cannot run here without a loss of its frames.
    if ((this.#isPending || this.#isGrey) && this.#frames === 1) await this.#settle();
    this.#underlay(color);
    this.#isPending = true;
  }

  /** Adds a color under the image. Draws it under an animation, because sharp would not flatten the bars of its frames. */
  #underlay(color: Color): void {
    if (color.alpha === 0) return;
    if (isOpaque(color) && this.#frames === 1) this.#image.flatten({ background: color });
    else this.#composite(underlayOf(color));
  }

  #composite(overlay: OverlayOptions): void {
    this.#overlays.push(overlay);
    this.#image.composite(this.#overlays);
  }

  /** Runs the pending operations. */
  async #settle(): Promise<void> {
    this.#requireTime();
    const pixels = this.#image.toColourspace('srgb').ensureAlpha().raw();
    const { data, info } = await guarded(pixels.toBuffer({ resolveWithObject: true }));
    const { width, height, channels } = info;
    this.#image = open(data, { raw: { width, height, channels } });
    this.#size = { width, height };
    this.#isPending = false;
    this.#isGrey = false;
    this.#overlays = [];
  }

  async #trim(trim: 'border' | Trim): Promise<void> {
    const given: Partial<Trim> = trim === 'border' ? { border: true } : trim;
    const { border, top = 0, left = 0, right = 0, bottom = 0, width, height } = given;
    const kept = {
      left,
      top,
      width: width ?? this.#size.width - left - right,
      height: height ?? this.#size.height - top - bottom,
    };
    if (
      kept.width < 1 ||
      kept.height < 1 ||
      left + kept.width > this.#size.width ||
      top + kept.height > this.#size.height
    )
      throw invalidOptions(
        `transform(): trim: the area must lie within the ${this.#size.width} × ${this.#size.height} pixels of the image`,
      );
    this.#image.extract(kept);
    await this.#settle();
    if (!border) return;
    const { color, tolerance } = border === true ? {} : border;
    this.#image.trim({
      ...(color !== undefined && { background: color }),
      ...(tolerance !== undefined && { threshold: tolerance }),
    });
    await this.#settle();
  }

  /** Flips, then rotates. Runs before the resizing, because a given width is that of the rotated image. */
  async #turn({ rotate = 0, flip }: Transform): Promise<void> {
    if (rotate % 360 === 0 && flip === undefined) return;
    if (flip?.includes('h')) this.#image.flop();
    if (flip?.includes('v')) this.#image.flip();
    // Flips now, because sharp would rotate before it flips, whatever the order of the calls.
    if (flip !== undefined) await this.#settle();
    this.#image.rotate(rotate);
    await this.#settle();
  }

  #extend(border: Transform['border']): void {
    if (border === undefined) return;
    const { width = 0, color = '#000000', ...sides } = border;
    const { top = width, bottom = width, left = width, right = width } = sides;
    const size = { width: this.#size.width + left + right, height: this.#size.height + top + bottom };
    if (Math.max(size.width, size.height) > MAX_SIDE)
      throw invalidOptions(`transform(): border: a result may have at most ${MAX_SIDE} pixels a side`);
    requirePixels(size);
    this.#image.extend({ top, bottom, left, right, background: color });
    this.#size = size;
  }
}

/** Adds changes of colour and sharpness. */
function adjust(image: Sharp, transform: Transform): void {
  const { blur, sharpen, brightness = 1, contrast = 1, saturation, gamma } = transform;
  // `blur` is a radius, and sharp takes a standard deviation: a radius of two of them has nearly all of a Gaussian's weight.
  if (blur) image.blur(Math.max(0.3, blur / 2));
  if (sharpen) image.sharpen({ sigma: 0.5 + sharpen / 2 });
  // The middle of the range keeps its brightness when the contrast changes.
  if (brightness !== 1 || contrast !== 1) image.linear(brightness * contrast, 128 * (1 - contrast));
  if (saturation !== undefined && saturation !== 1) image.modulate({ saturation });
  if (gamma) {
    const factor = Math.min(3, Math.max(1 / 3, gamma));
    image.gamma(factor < 1 ? 1 / factor : 1, Math.max(1, factor));
  }
}
