// Runs queries at the socket of a database of the control plane's process.
import { askSocket } from '../sockets/ask-socket.ts';

const ANSWER_BYTES = 64 * 2 ** 20;
/** Timeout of a request, in ms. */
const REQUEST_MS = 60_000;

/** A parameter, as workerd's D1 service takes it: bytes are a list of numbers. */
export type Value = string | number | null | number[];

/** A statement with its parameters. */
export interface Query {
  sql: string;
  params?: Value[];
}

/**
 * Runs queries in one transaction.
 * @param limitBytes of the answer. Default: 64 MiB
 * @returns the rows of each query
 * @throws {Error} with SQLite's message, or when the process does not answer
 */
export async function runQueries(
  socket: string,
  queries: Query[],
  limitBytes = ANSWER_BYTES,
): Promise<{ results: Record<string, unknown>[] }[]> {
  if (queries.length === 0) return [];
  const { status, text } = await askSocket(socket, {
    method: 'POST',
    path: '/query',
    headers: { host: 'd1', 'content-type': 'application/json' },
    body: JSON.stringify(queries.map(({ sql, params = [] }) => ({ sql, params }))),
    limitBytes,
    signal: AbortSignal.timeout(REQUEST_MS),
  });
  if (text === null) throw new Error('the answer of a database of the control plane is too large');
  const answer = JSON.parse(text) as { results: Record<string, unknown>[] }[] | { error: string };
  if (status === 200 && Array.isArray(answer)) return answer;
  throw new Error(`a database of the control plane refused: ${'error' in answer ? answer.error : text}`);
}
