// Encodes the bucket service's answers for workerd's R2 binding.
import type { ServerResponse } from 'node:http';
import type { ObjectRow } from '../../../sqlite/storage/objects.ts';
import type { Part } from './bucket/conditions.ts';
import type { Listed } from './bucket/listing.ts';
import type { R2Error } from './errors.ts';
import { ERROR_HEADER, METADATA_SIZE_HEADER } from './headers.ts';

/** Describes an object as JSON. @param part the range of the object's bytes in the answer, if any */
export function describeObject(object: ObjectRow, part?: Part): string {
  return JSON.stringify(fields(object, part));
}

/** Describes a page as JSON. */
export function describePage({ objects, delimitedPrefixes, cursor }: Listed): string {
  return JSON.stringify({
    objects: objects.map((row) => fields(row)),
    truncated: cursor !== null,
    ...(cursor !== null && { cursor }),
    delimitedPrefixes,
  });
}

function fields(row: ObjectRow, range?: Part): object {
  const { md5, sha1, sha256, sha384, sha512 } = JSON.parse(row.checksums) as Record<string, string>;
  return {
    name: row.key.toString('utf8'),
    version: row.version,
    size: row.size,
    etag: row.etag,
    uploaded: row.uploaded,
    storageClass: row.storage_class,
    httpFields: JSON.parse(row.http_metadata) as object,
    customFields: JSON.parse(row.custom_metadata) as object,
    range,
    // The etag is the MD5, except for a multipart upload, whose etag has a `-`.
    checksums: {
      0: md5 ?? (row.etag.includes('-') ? undefined : row.etag),
      1: sha1,
      2: sha256,
      3: sha384,
      4: sha512,
    },
  };
}

export function sendJson(response: ServerResponse, json: string): void {
  const body = Buffer.from(json, 'utf8');
  response.writeHead(200, { [METADATA_SIZE_HEADER]: body.length, 'content-length': body.length }).end(body);
}

/** Sends an error. If the answer has begun, ends the connection. @param metadata JSON for the body; null without one */
export function sendError(response: ServerResponse, error: R2Error, metadata: string | null): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const body = Buffer.from(metadata ?? '', 'utf8');
  response
    .writeHead(error.status, {
      [ERROR_HEADER]: asHeader(JSON.stringify({ version: 1, v4code: error.code, message: error.message })),
      'content-length': body.length,
      ...(metadata !== null && { [METADATA_SIZE_HEADER]: body.length }),
    })
    .end(body);
}

/** Encodes a text for a header as UTF-8 bytes: Node writes each character of a header as one byte (latin1). */
function asHeader(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}
