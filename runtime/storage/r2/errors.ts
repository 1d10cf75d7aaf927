// What the bucket service refuses. Codes and words are R2's own where it has some: apps read them.
import { CodedError } from '../../../handlers/contract/coded-error.ts';

/** The most that a key may have, in bytes. */
export const KEY_BYTES = 1024;
/** The most that an object may have when it is put at once, in bytes: 5 GiB less 5 MiB. */
export const OBJECT_BYTES = 5 * 2 ** 30 - 5 * 2 ** 20;
/** The most that an object's own metadata may have. */
export const METADATA_BYTES = 8192;
/** Every part of an upload but the last has this much at least, in bytes. */
export const PART_BYTES = 5 * 2 ** 20;
/** Keys in one answer to `list`. */
export const LIST_KEYS = 1000;

/** A refusal, which the app sees as `<method>: <message> (<code>)`. */
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
/** For what has to do with this machine, and may be otherwise later. */
export const unavailable = (message: string) => new R2Error(503, 10043, message);

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
