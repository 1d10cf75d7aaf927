// Options of a transformation, as the binding sends them.
import sharp from 'sharp';
import * as z from 'zod';

/** Maximum width and height of a result, in pixels. */
export const MAX_SIDE = 12_000;
/** Maximum operations of one call. */
const MAX_STEPS = 64;

/** Accepts null as undefined: image services of frameworks send null for options that a page did not give. */
const optional = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().transform((value) => value ?? undefined);
const side = z.number().min(1).max(MAX_SIDE).transform(Math.round);
const distance = z.number().min(0).max(MAX_SIDE).transform(Math.round);
const offset = z.number().min(-MAX_SIDE).max(MAX_SIDE).transform(Math.round);
const color = z.string().max(100).refine(isColor, 'is not a CSS color');
const index = z.int().min(0);

const Trim = z.object({
  top: optional(distance),
  bottom: optional(distance),
  left: optional(distance),
  right: optional(distance),
  width: optional(side),
  height: optional(side),
  border: optional(
    z.union([
      z.boolean(),
      z.object({ color: optional(color), tolerance: optional(z.number().min(0).max(255)) }),
    ]),
  ),
});
export type Trim = z.output<typeof Trim>;

export const Transform = z.object({
  imageIndex: index,
  width: optional(side),
  height: optional(side),
  fit: optional(z.enum(['scale-down', 'contain', 'cover', 'crop', 'pad', 'squeeze'])),
  gravity: optional(
    z.union([
      z.enum(['left', 'right', 'top', 'bottom', 'center', 'auto', 'entropy', 'face']),
      z.object({
        x: optional(z.number().min(0).max(1)),
        y: optional(z.number().min(0).max(1)),
        mode: optional(z.enum(['remainder', 'box-center'])),
      }),
    ]),
  ),
  background: optional(color),
  rotate: optional(z.literal([0, 90, 180, 270, 360])),
  flip: optional(z.enum(['h', 'v', 'hv'])),
  trim: optional(z.union([z.literal('border'), Trim])),
  border: optional(
    z.object({
      color: optional(color),
      width: optional(distance),
      top: optional(distance),
      bottom: optional(distance),
      left: optional(distance),
      right: optional(distance),
    }),
  ),
  blur: optional(z.number().min(0).max(250)),
  sharpen: optional(z.number().min(0).max(10)),
  brightness: optional(z.number().min(0).max(100)),
  contrast: optional(z.number().min(0).max(100)),
  saturation: optional(z.number().min(0).max(100)),
  gamma: optional(z.number().min(0).max(100)),
  segment: optional(z.never('this Cellar cannot remove backgrounds; leave "segment" out')),
});
export type Transform = z.output<typeof Transform>;

export const Draw = z.object({
  drawImageIndex: index,
  targetImageIndex: index,
  opacity: optional(z.number().min(0).max(1)),
  repeat: optional(z.union([z.boolean(), z.literal(['x', 'y'])])),
  composite: optional(z.enum(['over', 'in', 'atop', 'out', 'xor', 'lighter'])),
  top: optional(offset),
  bottom: optional(offset),
  left: optional(offset),
  right: optional(offset),
});
export type Draw = z.output<typeof Draw>;

/** The operations of a call, in order: each a `Draw` or a `Transform`. */
export const Steps = z
  .array(z.looseObject({}))
  .max(MAX_STEPS, `one call may have at most ${MAX_STEPS} operations`);

/** The result that an app asks for. Form fields are text. */
export const Output = z.object({
  // Some image services write `image/jpg`.
  output_format: z
    .string()
    .transform((format) => (format === 'image/jpg' ? 'image/jpeg' : format))
    .pipe(z.enum(['image/jpeg', 'image/png', 'image/gif', 'image/webp', 'image/avif', 'rgb', 'rgba'])),
  output_quality: z.coerce.number().min(1).max(100).transform(Math.round).optional(),
  background: color.optional(),
  anim: z
    .enum(['true', 'false'])
    .transform((anim) => anim === 'true')
    .optional(),
});
export type Output = z.output<typeof Output>;

/** Whether sharp can read a colour: its constructor throws when it cannot. */
function isColor(text: string): boolean {
  try {
    sharp({ create: { width: 1, height: 1, channels: 4, background: text } });
    return true;
  } catch {
    return false;
  }
}
