// Chooses the buffer size of a transfer: small when there are many, for example from deliberately slow clients.

/** Chunk size of a transfer, in bytes. */
export const PIECE_BYTES = 256 * 1024;
/** With more transfers than this in all apps, further ones get smaller chunks. */
const MANY = 128;
/** Chunk size of these further transfers, in bytes. */
const PIECE_BYTES_OF_MANY = 16 * 1024;

let underWay = 0;

/** Runs `work`, a transfer, with its chunk size in bytes. */
export async function duringTransfer<T>(work: (pieceBytes: number) => Promise<T>): Promise<T> {
  underWay++;
  try {
    return await work(underWay > MANY ? PIECE_BYTES_OF_MANY : PIECE_BYTES);
  } finally {
    underWay--;
  }
}
