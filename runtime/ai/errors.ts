// Errors of the AI service, in Cloudflare's format: `run()` of the binding rejects with `<code>: <message>`. The codes are
// those of Workers AI where one fits, because apps check them.
import { CodedError } from '../../handlers/contract/coded-error.ts';

/** An error whose message and code the app gets. */
export class AiError extends CodedError<number> {}

export const invalidInput = (message: string) => new AiError(400, 5004, message);
export const noSuchModel = (message: string) => new AiError(400, 5007, message);
export const tooLarge = (message: string) => new AiError(413, 3006, message);
export const timedOut = (message: string) => new AiError(408, 3007, message);
export const notAllowed = (message: string) => new AiError(403, 5018, message);
export const noCapacity = (message: string) => new AiError(429, 3040, message);
/** Cellar itself failed. */
export const failedHere = (message: string) => new AiError(500, 3043, message);
/** The AI server failed, or could not be reached. */
export const failedUpstream = (message: string) => new AiError(502, 3043, message);
export const notFound = (message: string) => new AiError(404, 7000, message);
export const notSet = () =>
  new AiError(
    503,
    3043,
    'This Cellar has no AI server. Its operator names one with RUNNER_AI_URL: any OpenAI-compatible server, such as http://127.0.0.1:11434/v1 for Ollama.',
  );

/** Returns the body of an error response, in the format that the binding reads. */
export function errorBody({ code, message }: AiError): string {
  return JSON.stringify({ success: false, errors: [{ code, message }], messages: [], result: {} });
}
