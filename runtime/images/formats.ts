// Recognizes image formats by their first bytes. Only the formats in `DECODED` reach a decoder.

/** Media types of the formats that are decoded. */
export const DECODED = ['image/jpeg', 'image/png', 'image/gif', 'image/webp', 'image/avif'] as const;
export const SVG = 'image/svg+xml';
export type Format = (typeof DECODED)[number] | typeof SVG;

/** The root element of an SVG has to begin within this many bytes. */
const SVG_HEAD_BYTES = 4_096;

/** Returns the format of an image; null when it is none of the supported ones. */
export function formatOf(bytes: Buffer): Format | null {
  const text = (from: number, to: number) => bytes.toString('latin1', from, to);
  if (text(0, 3) === '\xff\xd8\xff') return 'image/jpeg';
  if (text(0, 8) === '\x89PNG\r\n\x1a\n') return 'image/png';
  if (/^GIF8[79]a/.test(text(0, 6))) return 'image/gif';
  if (text(0, 4) === 'RIFF' && text(8, 12) === 'WEBP') return 'image/webp';
  if (text(4, 8) === 'ftyp' && /^avi[fs]$/.test(text(8, 12))) return 'image/avif';
  const head = bytes.toString('utf8', 0, SVG_HEAD_BYTES);
  return /^\uFEFF?\s*</.test(head) && /<svg[\s>]/.test(head) ? SVG : null;
}

/** Whether an image may have several frames: each GIF, and a WebP whose extended header (`VP8X`) has the flag for it. */
export function mayBeAnimated(bytes: Buffer): boolean {
  const format = formatOf(bytes);
  const isExtended = format === 'image/webp' && bytes.toString('latin1', 12, 16) === 'VP8X';
  return format === 'image/gif' || (isExtended && (bytes[20]! & 2) !== 0);
}
