// Verifies which app sent a request. The signature must cover everything that decides what the request may do.
import { timingSafeEqual } from 'node:crypto';
import { appKeys, type Opens, parseAccessKey } from '../app-keys.ts';
import { Refused } from './refused.ts';
import { encodePath, encodeQuery, signatureOf, UNSIGNED } from './signature.ts';

/** Maximum difference between the signer's clock and this machine's, in ms, as S3 allows. */
const SKEW_MS = 15 * 60_000;
const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/,\s]*)\/(\d{8})\/([a-z0-9-]{1,32})\/s3\/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$/;
const APP_ID = /^[\w-]{1,64}$/;
const DATE = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/;
/** Headers that every signature must cover, besides all `x-amz-` headers. */
const COVERED = ['host', 'x-amz-content-sha256', 'x-amz-date'];

export interface Received {
  method: string;
  /** The path, decoded once. */
  path: string;
  /** The query, decoded once. */
  query: ReadonlyMap<string, string>;
  headers: ReadonlyMap<string, string>;
}

export interface Sender {
  appId: string;
  /** What the access key gives access to. */
  opens: Opens;
  /** The signed hash of the body, or `UNSIGNED`. The store compares the hash with the body. */
  bodyHash: string;
}

/**
 * Returns the sender of a request.
 * @param nowMs the time, in ms since 1970
 * @throws {Refused} unless the request is signed with the key of the app that it names
 */
export function verify(received: Received, clusterKey: string, nowMs: number): Sender {
  const { headers } = received;
  const match = AUTHORIZATION.exec(headers.get('authorization') ?? '');
  if (match === null)
    throw new Refused('AccessDenied', 'the header authorization needs a signature AWS4-HMAC-SHA256');
  const [, accessKey, day, region, names, signature] = match as unknown as [string, ...Five];
  const { appId, opens } = parseAccessKey(accessKey);
  if (!APP_ID.test(appId)) throw new Refused('InvalidAccessKeyId', 'the access key is not the id of an app');
  const bodyHash = headers.get('x-amz-content-sha256') ?? '';
  if (bodyHash !== UNSIGNED && !/^[0-9a-f]{64}$/.test(bodyHash))
    throw new Refused('AccessDenied', `x-amz-content-sha256 must be ${UNSIGNED} or a SHA-256 in hexadecimal`);
  const date = headers.get('x-amz-date') ?? '';
  const signed = names.split(';');
  requireCovered(signed, headers);
  const keys = appKeys(clusterKey, appId);
  const expected = signatureOf(
    {
      method: received.method,
      path: encodePath(received.path),
      query: encodeQuery(received.query),
      headers: signed.map((name) => [name, headers.get(name)!]),
      bodyHash,
      date,
      region,
    },
    opens === 'r2' ? keys.objectsSecretKey : keys.secretKey,
  );
  if (!timingSafeEqual(Buffer.from(signature, 'hex'), Buffer.from(expected, 'hex')))
    throw new Refused(
      'SignatureDoesNotMatch',
      "the signature is not that of the app's key over this request",
    );
  const time = timeOf(date);
  if (!date.startsWith(day))
    throw new Refused('AccessDenied', 'the date of the credential is not that of x-amz-date');
  // Negated, so that NaN, from an invalid date, is refused.
  if (!(Math.abs(nowMs - time) <= SKEW_MS))
    throw new Refused('RequestTimeTooSkewed', 'x-amz-date differs by over 15 minutes from the clock');
  return { appId, opens, bodyHash };
}

type Five = [string, string, string, string, string];

/** @throws {Refused} unless the names are sorted, occur in the request, and include all that must be covered */
function requireCovered(signed: string[], headers: ReadonlyMap<string, string>): void {
  if (signed.some((name, at) => !headers.has(name) || (at > 0 && name <= signed[at - 1]!)))
    throw new Refused('AccessDenied', 'SignedHeaders must name headers of the request, sorted');
  const needed = [...COVERED, ...[...headers.keys()].filter((name) => name.startsWith('x-amz-'))];
  const missing = needed.find((name) => !signed.includes(name));
  if (missing !== undefined) throw new Refused('AccessDenied', `SignedHeaders must name ${missing}`);
}

function timeOf(date: string): number {
  const [, ...parts] = DATE.exec(date) ?? [];
  const [year, month, day, hour, minute, second] = parts.map(Number);
  return parts.length === 0 ? Number.NaN : Date.UTC(year!, month! - 1, day, hour, minute, second);
}
