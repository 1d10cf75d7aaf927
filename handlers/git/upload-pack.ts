// Reads the request of a fetch: the commits that the client wants and has. Git buffers the whole request in memory, so the
// size is limited here.
import { Problem } from '../problem.ts';
import { discard } from '../transports/body.ts';
import { decoded, isKnownCoding } from './decompress.ts';
import { line } from './push-report.ts';

/** Largest fetch request in MiB, decompressed: some 80,000 commits that the client has. */
const REQUEST_MB = 4;

/**
 * Reads and decompresses the request of a `git-upload-pack`.
 * @throws {Problem} `body_too_large`, `unsupported_media_type`, and `bad_request` when it cannot be decompressed
 */
export async function readFetch(request: Request): Promise<Blob> {
  const coding = request.headers.get('content-encoding');
  if (!isKnownCoding(coding))
    throw new Problem('unsupported_media_type', `The content coding ${coding} is not supported; use gzip.`);
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
  const what = `A fetch may name at most ${REQUEST_MB} MiB of commits and refs, decompressed`;
  return new Problem('body_too_large', `${what}; clone the repository again, or fetch fewer refs at once.`);
}

/** Returns a refusal as an `ERR` line of the protocol, the only text that git shows at this point. */
export function fetchRefusal(message: string): Response {
  const headers = { 'content-type': 'application/x-git-upload-pack-result', 'cache-control': 'no-cache' };
  return new Response(line(`ERR ${message}`), { headers });
}
