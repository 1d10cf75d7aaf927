// Errors of the vectors service. The binding throws errors with their `code`.
import { CodedError } from '../../handlers/contract/coded-error.ts';

/** An error whose message and code the app gets. */
export class VectorsError extends CodedError<number> {}

export const invalid = (message: string) => new VectorsError(400, 40_000, message);
export const notFound = (message: string) => new VectorsError(404, 40_004, message);
/** The error for a wrong number of dimensions. The code is Cloudflare's. */
export const wrongDimensions = (message: string) => new VectorsError(400, 40_012, message);
export const tooLarge = (message: string) => new VectorsError(413, 40_013, message);
export const quotaExceeded = (message: string) => new VectorsError(403, 40_003, message);
export const noCapacity = (message: string) => new VectorsError(429, 40_029, message);
export const failed = (message: string) => new VectorsError(500, 50_000, message);
export const diskFull = (message: string) => new VectorsError(507, 50_007, message);

/** Returns the body of an error response, in the format that the binding reads. */
export function errorBody({ code, message }: VectorsError): string {
  return JSON.stringify({ code, error: message });
}

/** The error for an app whose process has no socket of the service, as in a test of the app's start. */
export const notRunning = () => new VectorsError(503, 50_003, 'the vectors service does not run');
