// R2's rules for objects: keys, metadata, digests, and the parts of an upload.
import { createHash, randomBytes } from 'node:crypto';
import type { BlobRow, ObjectRow } from '../../../../sqlite/storage/objects.ts';
import type { Algorithm, Digests } from '../bytes/algorithms.ts';
import {
  badDigest,
  badUpload,
  internalError,
  invalidKey,
  invalidPart,
  invalidRequest,
  KEY_BYTES,
  METADATA_BYTES,
  metadataTooLarge,
  PART_BYTES,
  partTooSmall,
} from '../errors.ts';
import type { RequestOf } from '../requests.ts';
import type { Part } from './conditions.ts';

const STORAGE_CLASSES = ['Standard', 'InfrequentAccess'];

/** Encodes a key for the index. @throws {R2Error} when it is too long */
export function keyBytes(key: string): Buffer {
  const bytes = Buffer.from(key, 'utf8');
  if (bytes.length > KEY_BYTES) throw invalidKey();
  return bytes;
}

type Described = Pick<ObjectRow, 'storage_class' | 'http_metadata' | 'custom_metadata'>;

/** Converts an object's description for the index. @throws {R2Error} for too much metadata or an unknown storage class */
export function describe({
  customFields = [],
  httpFields = {},
  storageClass = '',
}: Pick<RequestOf<'put'>, 'customFields' | 'httpFields' | 'storageClass'>): Described {
  const texts = [...customFields.flatMap(({ k, v }) => [k, v]), ...Object.values(httpFields).map(String)];
  if (texts.reduce((sum, text) => sum + metadataBytes(text), 0) > METADATA_BYTES) throw metadataTooLarge();
  if (storageClass !== '' && !STORAGE_CLASSES.includes(storageClass))
    throw invalidRequest('The storage class specified is not valid.');
  return {
    storage_class: storageClass || 'Standard',
    http_metadata: JSON.stringify(httpFields),
    custom_metadata: JSON.stringify(customFields),
  };
}

/** Returns a text's length in bytes as V8 encodes it: one per character, or two if any character needs two. */
function metadataBytes(text: string): number {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) >= 256) return text.length * 2;
  return text.length;
}

const ALGORITHM_NAMES: Record<Algorithm, string> = {
  md5: 'MD5',
  sha1: 'SHA-1',
  sha256: 'SHA-256',
  sha384: 'SHA-384',
  sha512: 'SHA-512',
};

/** Checks digests that the request has. @returns these digests as hexadecimal text @throws {R2Error} when one differs */
export function requireDigests(
  given: Algorithm[],
  request: RequestOf<'put'>,
  digests: Digests,
): Record<string, string> {
  const checked: Record<string, string> = {};
  for (const algorithm of given) {
    const [wanted, actual] = [request[algorithm]!, digests[algorithm]!];
    if (!wanted.equals(actual)) throw badDigest(ALGORITHM_NAMES[algorithm], wanted, actual);
    checked[algorithm] = actual.toString('hex');
  }
  return checked;
}

/** Returns the chosen parts of an upload, sorted. @throws {R2Error} for an unknown or repeated part, or invalid sizes */
export function chosenParts(uploaded: BlobRow[], chosen: { part: number; etag: string }[]): BlobRow[] {
  if (new Set(chosen.map(({ part }) => part)).size < chosen.length) throw internalError();
  const byNumber = new Map(uploaded.map((row) => [row.part, row]));
  const parts = chosen.map(({ part, etag }) => {
    const row = byNumber.get(part);
    if (row?.etag !== etag) throw invalidPart();
    return row;
  });
  if (parts.slice(0, -1).some(({ size }) => size < PART_BYTES)) throw partTooSmall();
  parts.sort((a, b) => a.part - b.part);
  const sizes = parts.map(({ size }) => size);
  const last = sizes.pop() ?? 0;
  const [first] = sizes;
  if (first !== undefined && (last > first || sizes.some((size) => size < PART_BYTES || size !== first)))
    throw badUpload();
  return parts;
}

/** Returns the etag of a multipart object. */
export function uploadEtag(parts: BlobRow[]): string {
  const hash = createHash('md5');
  for (const { md5 } of parts) hash.update(md5, 'hex');
  return `${hash.digest('hex')}-${parts.length}`;
}

/** Yields each blob that `part` overlaps, and the overlap in the blob. `part` is a range of the concatenated blobs. */
export function* partsOf<Blob extends { size: number }>(
  blobs: Blob[],
  part: Part,
): Generator<{ blob: Blob; offset: number; length: number }> {
  const end = part.offset + part.length;
  let start = 0;
  for (const blob of blobs) {
    const [from, to] = [Math.max(part.offset, start), Math.min(end, start + blob.size)];
    if (from < to) yield { blob, offset: from - start, length: to - from };
    start += blob.size;
  }
}

export function newVersion(): string {
  return randomBytes(16).toString('hex');
}
