// A file's contents as the API sends them.
import type { Result } from '../../api.ts';

/** The bytes of base64. */
export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** The text of a file; null for one that is no text. Of a large file it is the beginning. */
export function textOf({ content_base64, content_type }: Result<'source.blob'>): string | null {
  if (!content_type.startsWith('text/')) return null;
  return new TextDecoder().decode(bytesOf(content_base64));
}
