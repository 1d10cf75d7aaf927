// Decodes file contents from the API.
import type { Result } from '../../api.ts';

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Returns the text of a file, or of the part that the API returned; null for a binary file. */
export function textOf({ content_base64, content_type }: Result<'source.blob'>): string | null {
  if (!content_type.startsWith('text/')) return null;
  return new TextDecoder().decode(bytesOf(content_base64));
}
