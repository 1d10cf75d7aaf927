// Parses and validates the JSON requests of workerd's R2 binding.
import * as z from 'zod';
import { invalidRequest } from './errors.ts';

/** Maximum number of keys of one deletion, as in R2. */
const DELETE_KEYS = 1000;

// workerd writes 64-bit numbers as strings.
const number = z.coerce.number();
const hex = z.string().transform((text) => Buffer.from(text, 'hex'));
const base64 = z.string().transform((text) => Buffer.from(text, 'base64'));

const etag = z.discriminatedUnion('type', [
  z.object({ type: z.literal('strong'), value: z.string() }),
  z.object({ type: z.literal('weak'), value: z.string() }),
  z.object({ type: z.literal('wildcard') }),
]);
const etags = z.array(etag).min(1).optional();
const condition = z.object({
  etagMatches: etags,
  etagDoesNotMatch: etags,
  /** In ms since 1970. */
  uploadedBefore: number.optional(),
  /** In ms since 1970. */
  uploadedAfter: number.optional(),
  /** Whether times are compared in whole seconds. */
  secondsGranularity: z.boolean().optional(),
});
const range = z.object({ offset: number.optional(), length: number.optional(), suffix: number.optional() });
const described = {
  customFields: z.array(z.object({ k: z.string(), v: z.string() })).optional(),
  httpFields: z
    .object({
      contentType: z.string().optional(),
      contentLanguage: z.string().optional(),
      contentDisposition: z.string().optional(),
      contentEncoding: z.string().optional(),
      cacheControl: z.string().optional(),
      cacheExpiry: number.optional(),
    })
    .optional(),
  storageClass: z.string().optional(),
  ssec: z.undefined('customer-provided keys (SSE-C) are not supported').optional(),
};
const ofUpload = { object: z.string(), uploadId: z.string() };

const request = z.discriminatedUnion('method', [
  z.object({ method: z.literal('head'), object: z.string() }),
  z.object({
    method: z.literal('get'),
    object: z.string(),
    range: range.optional(),
    rangeHeader: z.string().optional(),
    onlyIf: condition.optional(),
    ssec: described.ssec,
  }),
  z.object({
    method: z.literal('put'),
    object: z.string(),
    ...described,
    onlyIf: condition.optional(),
    md5: base64.optional(),
    sha1: hex.optional(),
    sha256: hex.optional(),
    sha384: hex.optional(),
    sha512: hex.optional(),
  }),
  z.object({
    method: z.literal('list'),
    limit: z.number().optional(),
    prefix: z.string().optional(),
    cursor: z.string().optional(),
    delimiter: z.string().optional(),
    startAfter: z.string().optional(),
    /** 0: `httpMetadata`, 1: `customMetadata`. */
    include: z.array(z.union([z.literal(0), z.literal(1)])).optional(),
  }),
  z.object({
    method: z.literal('delete'),
    object: z.string().optional(),
    objects: z.array(z.string()).max(DELETE_KEYS, `a delete may name at most ${DELETE_KEYS} keys`).optional(),
  }),
  z.object({ method: z.literal('createMultipartUpload'), object: z.string(), ...described }),
  z.object({
    method: z.literal('uploadPart'),
    ...ofUpload,
    partNumber: z.int().min(1).max(10_000),
    ssec: described.ssec,
  }),
  z.object({
    method: z.literal('completeMultipartUpload'),
    ...ofUpload,
    parts: z.array(z.object({ etag: z.string(), part: z.number() })).max(10_000),
  }),
  z.object({ method: z.literal('abortMultipartUpload'), ...ofUpload }),
  // Sent by the host, about all buckets of the app.
  z.object({ method: z.literal('usage') }),
]);

export type R2Request = z.infer<typeof request>;
export type RequestOf<Method extends R2Request['method']> = Extract<R2Request, { method: Method }>;
export type Condition = z.infer<typeof condition>;

/**
 * Parses a request of the binding.
 * @throws {R2Error} when it is invalid
 */
export function parseRequest(json: string): R2Request {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw invalidRequest();
  }
  const parsed = request.safeParse(value);
  if (parsed.success) return parsed.data;
  const unsupported = parsed.error.issues.find(({ path }) => path[0] === 'ssec' || path[0] === 'objects');
  throw unsupported ? invalidRequest(unsupported.message) : invalidRequest();
}
