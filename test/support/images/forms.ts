// Images, and the forms that the images binding sends.
import assert from 'node:assert/strict';
import sharp from 'sharp';

export interface Form {
  headers: { 'content-type': string };
  body: Uint8Array;
}

/** Returns a PNG of one color. */
export function plain(width: number, height: number, background: string): Promise<Buffer> {
  return sharp({ create: { width, height, channels: 4, background } })
    .png()
    .toBuffer();
}

/** Returns the form of a call. @param images the canvas, then those that are drawn */
export async function formWith(images: Uint8Array[], fields: Record<string, string> = {}): Promise<Form> {
  const form = new FormData();
  for (const [at, image] of images.entries())
    form.append(at === 0 ? 'image' : 'draw_image', new Blob([new Uint8Array(image)]), 'image');
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  const request = new Response(form);
  return {
    headers: { 'content-type': request.headers.get('content-type')! },
    body: new Uint8Array(await request.arrayBuffer()),
  };
}

/** Returns the size of an image, and its pixels without transparency. */
export async function pixelsOf(bytes: Buffer): Promise<{ size: number[]; data: Buffer }> {
  const { data, info } = await sharp(bytes).removeAlpha().raw().toBuffer({ resolveWithObject: true });
  return { size: [info.width, info.height], data };
}

/** Returns the mean difference of two images, of 255. */
export function differenceOf(one: Buffer, other: Buffer): number {
  return one.reduce((sum, value, at) => sum + Math.abs(value - other[at]!), 0) / one.length;
}

export async function bytesOf(response: Response): Promise<Buffer> {
  return Buffer.from(await response.arrayBuffer());
}

/** Checks that two responses are images of the same type and size, and with about the same pixels. */
export async function assertAlike(ours: Response, theirs: Response, message: string): Promise<void> {
  const facts = ({ status, headers }: Response) => [
    status,
    headers.get('content-type'),
    headers.get('cf-resized'),
  ];
  assert.deepEqual(facts(ours), facts(theirs), message);
  const [actual, expected] = [await pixelsOf(await bytesOf(ours)), await pixelsOf(await bytesOf(theirs))];
  assert.deepEqual(actual.size, expected.size, message);
  assert.ok(differenceOf(actual.data, expected.data) < 3, message);
}
