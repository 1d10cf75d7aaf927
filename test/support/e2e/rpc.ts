// Calls to a Cellar's RPC.
import { fetch } from 'undici';
import { ANSWER_DEADLINE_MS, type Cellar } from './cellar.ts';

/**
 * Returns a function that calls a method, by default with the runner token. It resolves with the result or
 * `{code, detail}`. @throws {Error} when the answer is not JSON-RPC
 */
export function rpcOf(cellar: Cellar) {
  return async (
    method: string,
    params: object,
    { headers = {}, key = cellar.token }: { headers?: Record<string, string>; key?: string } = {},
    // biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
  ): Promise<any> => {
    const response = await fetch(`${cellar.api}/rpc`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      signal: AbortSignal.timeout(ANSWER_DEADLINE_MS),
    });
    // biome-ignore lint/suspicious/noExplicitAny: see above
    const answer = (await response.json()) as any;
    if (answer.jsonrpc !== '2.0' || 'result' in answer === 'error' in answer)
      throw new Error(`${method} was not answered by JSON-RPC: ${response.status} ${JSON.stringify(answer)}`);
    const { result, error } = answer;
    if (error === undefined) return result;
    return { code: error.data?.code ?? error.code, detail: error.data?.detail ?? error.message };
  };
}
