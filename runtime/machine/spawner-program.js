// A small process that starts the host's children: to fork a small process takes less than a millisecond. Each line that it
// reads names a child; each line that it writes says that one runs, could not be started, or has ended.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';

/** Time before a stream is opened that could not be, in ms. */
const RETRY_MS = 100;

/** Where the host waits for the children's streams. */
const [, , path] = process.argv;

let last = Promise.resolve();
createInterface({ input: process.stdin })
  .on('line', (line) => {
    last = last.then(() => start(JSON.parse(line)));
  })
  // The host has ended.
  .on('close', () => process.exit());
process.stdout.on('error', () => process.exit());

/** As `JobRequest` of `spawner.ts`. One after another: the host knows streams by the order in which they come. */
async function start({ id, words, cwd, environment, streams }) {
  const sockets = new Map();
  for (const descriptor of streams) {
    while (!sockets.has(descriptor)) {
      try {
        sockets.set(descriptor, await openStream());
      } catch {
        // Those that are there already would be taken for the next child's. The host gives up in the end.
        if (sockets.size > 0) await setTimeout(RETRY_MS);
        else return tell({ id, unstarted: true });
      }
    }
  }
  try {
    const child = spawn(words[0], words.slice(1), {
      cwd,
      env: environment,
      detached: true,
      stdio: Array.from({ length: Math.max(...streams) + 1 }, (_, n) => sockets.get(n) ?? 'ignore'),
    });
    child.on('spawn', () => tell({ id, pid: child.pid }));
    child.on('error', (error) => tell({ id, failure: { message: error.message, code: error.code } }));
    child.on('exit', (code, killedBy) => tell({ id, code, killedBy }));
  } catch (error) {
    tell({ id, failure: { message: error.message, code: error.code } });
  }
  // The child has its own descriptors of them.
  for (const socket of sockets.values()) socket.destroy();
}

async function openStream() {
  const socket = connect({ path, allowHalfOpen: true }).pause();
  await once(socket, 'connect');
  // Programs expect streams that wait. Of those up to standard error Node sees to that, of others nobody.
  socket._handle.setBlocking(true);
  return socket;
}

function tell(reply) {
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}
