// Errors of the images service. The binding throws them with `code`, which apps check: the codes are Cloudflare's.
import { CodedError } from '../../handlers/contract/coded-error.ts';

/** An error whose message and code the app gets. */
export class ImagesError extends CodedError<number> {}

export const invalidOptions = (message: string) => new ImagesError(400, 9401, message);
export const tooLarge = (message: string) => new ImagesError(413, 9402, message);
export const notAnImage = (message: string) => new ImagesError(415, 9412, message);
export const tooManyPixels = (message: string) => new ImagesError(413, 9413, message);
export const unsupportedFormat = (message: string) => new ImagesError(415, 9520, message);
export const noCapacity = (message: string) => new ImagesError(429, 9522, message);
/** The image is damaged, or the service failed. */
export const failed = (message: string) => new ImagesError(422, 9523, message);
export const timedOut = (message: string) => new ImagesError(504, 9529, message);

/** Returns the error for an app's process without the images service, as when a deploy tries its release. */
export const notRunning = () => new ImagesError(503, 9523, 'the images service does not run');

/** Returns the headers and body of an error response, in the format that the binding reads. */
export function errorAnswer({ code, message }: ImagesError): {
  headers: Record<string, string>;
  body: string;
} {
  return {
    headers: { 'content-type': 'text/plain; charset=utf-8', 'cf-images-binding': `err=${code}` },
    body: `ERROR ${code}: ${message}`,
  };
}
