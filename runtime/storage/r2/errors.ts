// Errors of the bucket service. Codes and messages are R2's own where they exist: apps read them.
import { CodedError } from '../../../handlers/contract/coded-error.ts';

/** Longest key, in bytes. */
export const KEY_BYTES = 1024;
/** Largest object in a single put, in bytes: 5 GiB less 5 MiB. */
export const OBJECT_BYTES = 5 * 2 ** 30 - 5 * 2 ** 20;
/** Maximum size of an object's custom and HTTP metadata together, in bytes. */
export const METADATA_BYTES = 8192;
/** Smallest part of a multipart upload except the last, in bytes. */
export const PART_BYTES = 5 * 2 ** 20;
/** Age at which a multipart upload is removed, in ms. The parts of an incomplete upload are removed too. */
export const UPLOAD_MS = 7 * 24 * 60 * 60_000;
/** Maximum number of keys in one answer to `list`. */
export const LIST_KEYS = 1000;

/** A refusal, shown to the app as `<method>: <message> (<code>)`. */
export class R2Error extends CodedError<number> {}

export const internalError = () =>
  new R2Error(500, 10001, 'We encountered an internal error. Please try again.');
export const noSuchKey = () => new R2Error(404, 10007, 'The specified key does not exist.');
export const partTooSmall = () =>
  new R2Error(400, 10011, 'Your proposed upload is smaller than the minimum allowed object size.');
export const metadataTooLarge = () =>
  new R2Error(400, 10012, 'Your metadata headers exceed the maximum allowed metadata size.');
export const invalidKey = () => new R2Error(400, 10020, 'The specified object name is not valid.');
export const invalidLimit = () => new R2Error(400, 10022, 'MaxKeys params must be positive integer <= 1000.');
export const noSuchUpload = () => new R2Error(400, 10024, 'The specified multipart upload does not exist.');
export const invalidPart = () =>
  new R2Error(400, 10025, 'One or more of the specified parts could not be found.');
export const invalidRequest = (message = 'Metadata missing or invalid') => new R2Error(400, 10029, message);
export const preconditionFailed = () =>
  new R2Error(412, 10031, 'At least one of the pre-conditions you specified did not hold.');
export const invalidRange = () => new R2Error(416, 10039, 'The requested range is not satisfiable');
export const badUpload = () => new R2Error(500, 10048, 'There was a problem with the multipart upload.');
export const tooLarge = (message = 'Your proposed upload exceeds the maximum allowed object size.') =>
  new R2Error(400, 100100, message);
/** An error for a condition of this machine that may change, such as a full disk. */
export const unavailable = (message: string) => new R2Error(503, 10043, message);
/** An error for the case that the bucket of this Cellar does not answer. */
export const bucketAway = (message = 'The bucket of this Cellar does not answer. Please try again.') =>
  new R2Error(504, 10043, message);

export function badDigest(algorithm: string, given: Buffer, actual: Buffer): R2Error {
  return new R2Error(
    400,
    10037,
    [
      `The ${algorithm} checksum you specified did not match what we received.`,
      `You provided a ${algorithm} checksum with value: ${given.toString('hex')}`,
      `Actual ${algorithm} was: ${actual.toString('hex')}`,
    ].join('\n'),
  );
}
