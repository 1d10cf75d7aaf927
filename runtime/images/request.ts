// Reads calls of the binding: forms with images and options.
import { MIMEType } from 'node:util';
import type * as z from 'zod';
import { invalidOptions } from './errors.ts';
import { Draw, Output, Steps, Transform } from './options.ts';

/** Maximum images that one call draws. */
const MAX_DRAWN = 16;
/** Maximum parts of a form. Enough for the images and their options. */
const MAX_PARTS = 32;
/** Maximum characters of the JSON with operations or options. */
const STEPS_LENGTH = 65_536;

type Field = ReturnType<FormData['get']>;

/** What a call to transform an image asks for. */
export interface TransformCall {
  /** The canvas, then the images that are drawn. */
  images: Buffer[];
  steps: (Transform | Draw)[];
  output: Output;
  /** Whether a result that is too large for AVIF becomes WebP. Default: it is refused. */
  mayBeWebp?: boolean;
}

/** Parses the form of a call. @throws {ImagesError} when it is not a form, or has too many parts */
export async function formOf(body: Buffer, contentType = ''): Promise<FormData> {
  const boundary = boundaryOf(contentType);
  if (boundary === null) throw noForm();
  // Checked before parsing, because the parser makes an object of each part.
  // A boundary precedes each part, and one ends the form.
  if (hasMore(body, boundary, MAX_PARTS + 1)) throw tooManyParts();
  try {
    const headers = { 'content-type': contentType };
    return await new Response(new Uint8Array(body), { headers }).formData();
  } catch {
    throw noForm();
  }
}

/** Returns the boundary between the parts of a form; null when the content type is not that of a form with parts. */
function boundaryOf(contentType: string): string | null {
  try {
    const { essence, params } = new MIMEType(contentType);
    return essence === 'multipart/form-data' ? params.get('boundary') || null : null;
  } catch {
    return null;
  }
}

/** Whether a body has a text more than `most` times. */
function hasMore(body: Buffer, text: string, most: number): boolean {
  let at = -1;
  for (let found = 0; found <= most; found++) {
    at = body.indexOf(text, at + 1);
    if (at === -1) return false;
  }
  return true;
}

const noForm = () => invalidOptions('the request is not a form of the images binding');
const tooManyDrawn = () => invalidOptions(`one call may draw at most ${MAX_DRAWN} images`);
const tooManyParts = () =>
  invalidOptions(`the form has more than ${MAX_PARTS} parts: one call may draw at most ${MAX_DRAWN} images`);

/** Returns the image of a call. @throws {ImagesError} without an image, or when the call draws text */
export async function imageOf(form: FormData): Promise<Buffer> {
  if (form.has('text_input') || form.has('draw_text'))
    throw invalidOptions('text() is not supported: draw text as an image that you made before');
  return bytesOf(form.get('image'));
}

/** Returns the call that a form describes. @throws {ImagesError} naming the wrong option */
export async function transformCallOf(form: FormData): Promise<TransformCall> {
  const images = await imagesOf(form);
  const steps = checked(Steps, jsonOf(form.get('transforms') ?? '[]'), 'transform()').map((step) =>
    'drawImageIndex' in step ? checked(Draw, step, 'draw()') : checked(Transform, step, 'transform()'),
  );
  const indexes = steps.flatMap((step) =>
    'drawImageIndex' in step ? [step.drawImageIndex, step.targetImageIndex] : [step.imageIndex],
  );
  if (indexes.some((index) => index >= images.length)) throw invalidOptions('an image to draw is missing');
  const fields = ['output_format', 'output_quality', 'background', 'anim'] as const;
  const given = fields.flatMap((name) => (form.has(name) ? [[name, form.get(name)]] : []));
  return { images, steps, output: checked(Output, Object.fromEntries(given), 'output()') };
}

/**
 * Returns the image of a call, followed by the images to draw on it.
 * @throws {ImagesError} without an image, with too many images, or when the call draws text
 */
export async function imagesOf(form: FormData): Promise<Buffer[]> {
  const canvas = await imageOf(form);
  const drawn = form.getAll('draw_image');
  if (drawn.length > MAX_DRAWN) throw tooManyDrawn();
  return [canvas, ...(await Promise.all(drawn.map(bytesOf)))];
}

async function bytesOf(part: Field): Promise<Buffer> {
  if (part === null || typeof part === 'string') throw invalidOptions('the image is missing');
  return Buffer.from(await part.arrayBuffer());
}

/** Returns the parsed JSON of a field of a form. @throws {ImagesError} when the field is missing, no JSON, or too long */
export function jsonOf(text: Field): unknown {
  if (typeof text !== 'string' || text.length > STEPS_LENGTH)
    throw invalidOptions(`the operations may have at most ${STEPS_LENGTH} characters`);
  try {
    return JSON.parse(text);
  } catch {
    throw invalidOptions('the operations are not JSON');
  }
}

/** Checks options. @param what the name of the call in the error @throws {ImagesError} naming the wrong option */
export function checked<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  what: string,
): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const { path, message } = result.error.issues[0]!;
  const field = path.filter((part) => typeof part === 'string').join('.');
  throw invalidOptions(`${what}: ${field === '' ? '' : `${field}: `}${message}`);
}
