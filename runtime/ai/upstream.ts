// Calls the AI server, and adds its API key, which apps do not get.
import { Agent, fetch, type Response } from 'undici';
import { cutText } from '../../handlers/contract/text.ts';
import type { SerializedCall } from './calls.ts';
import {
  AiError,
  failedUpstream,
  invalidInput,
  noCapacity,
  noSuchModel,
  notAllowed,
  timedOut,
} from './errors.ts';

/** The AI server in the settings. */
export interface AiServer {
  /** Such as `http://127.0.0.1:11434/v1`. */
  url: string;
  /** Empty: no key is sent. */
  key: string;
  /** Names of models on the server, by the names that apps use. A name that is missing here is sent unchanged. */
  models: Record<string, string>;
}

/** Timeout for a complete response, in ms. Long, because a model on a CPU is slow. */
const DEADLINE_MS = 10 * 60_000;
/** Without the HTTP client's own timeouts, of 5 minutes: `DEADLINE_MS` applies instead. */
const NO_TIMEOUTS = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
export const TIMED_OUT = 'The AI server did not answer in time.';
/** Reading of an error response stops after this many characters. */
const ERROR_BODY_LENGTH = 16_384;
/** Maximum characters of an error's message for the app. */
const ERROR_LENGTH = 1_000;

/**
 * Sends a request to the AI server.
 * @param left aborts when the app has disconnected
 * @returns the response, with an unread body
 * @throws {AiError} when the server refuses the request, cannot be reached, or does not answer in time
 * @throws the reason of `left`, once it is aborted
 */
export async function ask(
  { url, key }: AiServer,
  { path, model, body }: SerializedCall,
  left: AbortSignal,
): Promise<Response> {
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  try {
    const response = await fetch(`${url.replace(/\/+$/, '')}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(key !== '' && { authorization: `Bearer ${key}` }) },
      body,
      // Sends the key to this server only: no redirects.
      redirect: 'manual',
      signal: AbortSignal.any([deadline, left]),
      dispatcher: NO_TIMEOUTS,
    });
    if (!response.ok) throw await refusal(response, model, key);
    return response;
  } catch (error) {
    if (error instanceof AiError || left.aborted) throw error;
    if (deadline.aborted) throw timedOut(TIMED_OUT);
    throw failedUpstream('The AI server cannot be reached; the operator can check RUNNER_AI_URL.');
  }
}

async function refusal(response: Response, model: string, key: string): Promise<AiError> {
  const { status } = response;
  const said = messageOf(await head(response), key);
  // The server's message is not passed on, because it may contain parts of the key.
  if (status === 401 || status === 403)
    return notAllowed('The AI server refused the API key; the operator can correct RUNNER_AI_KEY.');
  if (status === 404) return noSuchModel(`No such model ${model} or task${said === '' ? '' : `: ${said}`}`);
  if (status === 429) return noCapacity(said || 'The AI server is overloaded; try again.');
  if (status >= 400 && status < 500)
    return invalidInput(said || `The AI server refused the request (${status}).`);
  return failedUpstream(`The AI server answered ${status}${said === '' ? '' : `: ${said}`}`);
}

async function head(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > ERROR_BODY_LENGTH) break;
  }
  return text;
}

/** Returns the message in an error's body: `{"error": {"message"}}`, `{"error"}`, or `{"message"}`. Hides the API key. */
function messageOf(text: string, key: string): string {
  let message: unknown;
  try {
    const { error, message: own } = JSON.parse(text);
    message = typeof error === 'object' ? error?.message : (error ?? own);
  } catch {
    return '';
  }
  if (typeof message !== 'string') return '';
  const shown = key === '' ? message : message.replaceAll(key, '…');
  return cutText(shown, ERROR_LENGTH);
}
