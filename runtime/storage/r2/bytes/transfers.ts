// Chooses the buffer size of a transfer: small when there are many, for example from deliberately slow clients.

export const PIECE_BYTES = 256 * 1024;
/** Above this number of transfers in all apps, further ones get chunks of this size. */
const MANY = 128;
const PIECE_BYTES_OF_MANY = 16 * 1024;

let underWay = 0;

/** Runs `work` with the chunk size for its body, in bytes. */
export async function duringTransfer<T>(work: (pieceBytes: number) => Promise<T>): Promise<T> {
  underWay++;
  try {
    return await work(underWay > MANY ? PIECE_BYTES_OF_MANY : PIECE_BYTES);
  } finally {
    underWay--;
  }
}
