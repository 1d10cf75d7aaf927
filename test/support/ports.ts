// Reserves ports for this test process, for servers that need a port known in advance or reuse one after a restart.
import { createServer } from 'node:net';

/**
 * Above 10080, the last port that `fetch` refuses. All blocks are below the ephemeral ports (`ip_local_port_range`), so that
 * the kernel assigns none of these ports to others.
 */
const FIRST = 10_112;
const BLOCKS = 676;
const BLOCK = 32;

let next = 0;
let end = 0;

/** Returns a port that no other test process uses. */
export function ownPort(): number {
  if (next === end) {
    next = claimBlock();
    end = next + BLOCK;
    next++;
  }
  return next++;
}

/** Returns ports that follow each other, and that no other test process uses. @param count less than `BLOCK` */
export function ownPorts(count: number): number[] {
  // The rest of this block is too short.
  if (next + count > end) next = end;
  return Array.from({ length: count }, ownPort);
}

/** Returns the first port of a free block. This process listens there until it ends, which reserves the block. */
function claimBlock(): number {
  for (;;) {
    const port = FIRST + BLOCK * Math.floor(Math.random() * BLOCKS);
    const server = createServer((socket) => socket.destroy());
    server.on('error', () => {});
    // Without a host name, `listen` binds synchronously.
    if (server.listen(port).listening) {
      server.unref();
      return port;
    }
  }
}
