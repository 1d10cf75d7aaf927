// How much memory a body takes while it comes or goes: less when there are many, as from clients that are slow on purpose.

export const PIECE_BYTES = 256 * 1024;
/** Of bodies under way, in all apps, beyond which a further one gets pieces of this size. */
const MANY = 128;
const PIECE_BYTES_OF_MANY = 16 * 1024;

let underWay = 0;

/** Runs `work` with the size of the pieces, in bytes, in which it may copy its body. */
export async function duringTransfer<T>(work: (pieceBytes: number) => Promise<T>): Promise<T> {
  underWay++;
  try {
    return await work(underWay > MANY ? PIECE_BYTES_OF_MANY : PIECE_BYTES);
  } finally {
    underWay--;
  }
}
