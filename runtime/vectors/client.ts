// Calls the vectors service as an app's own binding does, without starting the app's process.
import { type IncomingMessage, request } from 'node:http';
import type { Readable } from 'node:stream';
import { Refusal } from '../refusal.ts';
import { readAtMost } from '../sockets/read-at-most.ts';
import { INDEX_HEADER } from './headers.ts';

/** Idle timeout of a call, in ms: longer than the timeout of an operation. */
const SILENCE_MS = 45_000;
const ANSWER_BYTES = 16 * 2 ** 20;

export interface IndexSettings {
  dimensions: number;
  metric: string;
  vectors: number;
  bytes: number;
}

/** The socket of an app, and the index's storage id. */
export interface IndexPlace {
  socket: string;
  storageId: string;
}

/**
 * Calls an operation of an index.
 * @param body the arguments as JSON, or the vectors of an insert; null: no arguments
 * @returns the answer as JSON
 * @throws {Refusal} with the service's message; {Error} when the service does not answer
 */
export async function callIndex(
  place: IndexPlace,
  operation: string,
  body: Readable | null,
  contentType = 'application/json',
): Promise<string> {
  const response = await send(place, operation, body, contentType);
  const bytes = await readAtMost(response, ANSWER_BYTES);
  if (bytes === null) throw new Error('the answer of the vectors service is too large');
  const text = bytes.toString('utf8');
  if (response.statusCode !== 200)
    throw refusalOf(response.statusCode!, (JSON.parse(text) as { error: string }).error);
  return text;
}

function send(
  { socket: socketPath, storageId }: IndexPlace,
  operation: string,
  body: Readable | null,
  contentType: string,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers = { [INDEX_HEADER]: storageId, 'content-type': contentType };
    const asked = request({ socketPath, method: 'POST', path: `/${operation}`, agent: false, headers });
    asked.setTimeout(SILENCE_MS, () => asked.destroy(new Error('the vectors service does not answer')));
    asked.on('error', reject);
    asked.on('response', resolve);
    if (body === null) asked.end();
    else {
      body.once('close', () => {
        if (!body.readableEnded) asked.destroy(new Refusal(400, 'bad_request', 'the body was broken off'));
      });
      body.pipe(asked);
    }
  });
}

function refusalOf(status: number, message: string): Refusal {
  if (status === 404) return new Refusal(404, 'storage_not_found', message);
  if (status === 403) return new Refusal(403, 'quota_exceeded', message);
  if (status === 507) return new Refusal(507, 'insufficient_storage', message);
  if (status === 429 || status === 503) return new Refusal(503, 'host_unavailable', message);
  if (status < 500) return new Refusal(400, 'invalid_input', message);
  return new Refusal(500, 'internal_error', message);
}
