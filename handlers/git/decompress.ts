// Decompresses git's request bodies in bounded steps: a thousand bytes of gzip may expand to a million.

/** Compressed bytes per step. They expand to about 4 MiB at most. */
const STEP_BYTES = 4096;

/** Returns the next bytes, or null at the end. */
export type Next = () => Promise<Uint8Array | null>;

/** Returns whether `git http-backend` accepts this content encoding; `null`: the body is not encoded. */
export function isKnownCoding(coding: string | null): boolean {
  return coding === null || isGzip(coding);
}

/**
 * Returns a reader of the decompressed bytes. Does not use a pipe, because a pipe would continue to read after its reader
 * has stopped. Reads at most one chunk more than needed.
 */
export function decoded(next: Next, coding: string | null): Next {
  return isGzip(coding) ? decompressed(inSteps(next)) : next;
}

function isGzip(coding: string | null): boolean {
  return coding === 'gzip' || coding === 'x-gzip';
}

function decompressed(next: Next): Next {
  const { readable, writable } = new DecompressionStream('gzip');
  const writer = writable.getWriter();
  const reader = readable.getReader();
  return async () => {
    let output: Uint8Array | null | undefined;
    const reading = reader.read().then(({ value = null }) => {
      output = value;
    });
    while (output === undefined) {
      const chunk = await next();
      await Promise.race([reading, chunk === null ? writer.close() : writer.write(chunk)]);
      if (chunk === null) await reading;
    }
    return output;
  };
}

function inSteps(next: Next): Next {
  let rest = new Uint8Array(0);
  return async () => {
    if (rest.length === 0) {
      const chunk = await next();
      if (chunk === null) return null;
      rest = new Uint8Array(chunk);
    }
    const step = rest.subarray(0, STEP_BYTES);
    rest = rest.subarray(STEP_BYTES);
    return step;
  };
}
