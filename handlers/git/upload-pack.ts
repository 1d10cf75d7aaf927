// A fetch's request: what a client wants and has. Git keeps all of it in memory, so that it is read here first, within a limit.
import { Problem } from '../problem.ts';
import { discard } from '../transports/body.ts';
import { decoded, isKnownCoding } from './decompress.ts';
import { line } from './push-report.ts';

/** MiB of a fetch's request without its content coding: some 80,000 commits that the client has. */
const REQUEST_MB = 4;

/**
 * Reads the request of a `git-upload-pack` without its content coding.
 * @throws {Problem} `body_too_large`, `unsupported_media_type`, and `bad_request` when it cannot be decompressed
 */
export async function readFetch(request: Request): Promise<Blob> {
  const coding = request.headers.get('content-encoding');
  if (!isKnownCoding(coding))
    throw new Problem('unsupported_media_type', `The content coding ${coding} is not taken; use gzip.`);
  if (request.body === null) return new Blob([]);
  const reader = request.body.getReader();
  const next = decoded(async () => (await reader.read()).value ?? null, coding);
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let left = REQUEST_MB * 2 ** 20;
  try {
    for (;;) {
      const chunk = await next().catch(() => {
        throw new Problem('bad_request', 'The request of this fetch cannot be decompressed.');
      });
      if (chunk === null) return new Blob(chunks);
      left -= chunk.length;
      if (left < 0) throw tooLarge();
      chunks.push(chunk as Uint8Array<ArrayBuffer>);
    }
  } catch (error) {
    reader.releaseLock();
    await discard(request.body);
    throw error;
  }
}

function tooLarge(): Problem {
  const what = `A fetch may name ${REQUEST_MB} MiB of commits and refs, decompressed`;
  return new Problem('body_too_large', `${what}; clone the repository anew, or fetch fewer refs at once.`);
}

/** Returns a refusal in the words of the protocol: git shows its user no others at this point. */
export function fetchRefusal(message: string): Response {
  const headers = { 'content-type': 'application/x-git-upload-pack-result', 'cache-control': 'no-cache' };
  return new Response(line(`ERR ${message}`), { headers });
}
