// Ports of this test process's own, for what must listen at a port that is known before, or come back to the one it had.
import { createServer } from 'node:net';

/** Below those that the system gives away (`ip_local_port_range`), so that nothing gets one by chance while nobody listens. */
const FIRST = 10_000;
const BLOCKS = 680;
const BLOCK = 32;

let next = 0;
let end = 0;

/** A port that no other test process has. */
export function ownPort(): number {
  if (next === end) {
    next = claimBlock();
    end = next + BLOCK;
    next++;
  }
  return next++;
}

/** The first port of a block. This process listens there as long as it lives, which tells others that the block is taken. */
function claimBlock(): number {
  for (;;) {
    const port = FIRST + BLOCK * Math.floor(Math.random() * BLOCKS);
    const server = createServer((socket) => socket.destroy());
    server.on('error', () => {});
    // Without a name to look up it is known at once.
    if (server.listen(port).listening) {
      server.unref();
      return port;
    }
  }
}
