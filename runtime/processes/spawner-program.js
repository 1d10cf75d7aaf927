// A small process that starts the host's children: to fork a small process takes less than a millisecond. Each line that it
// reads names a child; each line that it writes says that one runs, could not be started, or has ended.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

/** Bytes that each stream begins with: the job's id and the descriptor, then blanks. */
const LABEL_BYTES = 24;

/** Path of the host's socket for the children's streams. */
const [, , path] = process.argv;

/** Process groups of the children that run. */
const groups = new Set();

let last = Promise.resolve();
createInterface({ input: process.stdin })
  .on('line', (line) => {
    last = last.then(() => start(JSON.parse(line)));
  })
  .on('close', endAll);
process.stdout.on('error', endAll);

/** Starts the child of a `JobRequest` of `spawner.ts`. Requests run one after another, so that few streams are open here. */
async function start({ id, words, cwd, environment, streams }) {
  const sockets = new Map();
  try {
    for (const descriptor of streams) sockets.set(descriptor, await openStream(id, descriptor));
  } catch {
    for (const socket of sockets.values()) socket.destroy();
    return send({ id, unstarted: true });
  }
  try {
    const child = spawn(words[0], words.slice(1), {
      cwd,
      env: environment,
      detached: true,
      stdio: Array.from({ length: Math.max(...streams) + 1 }, (_, n) => sockets.get(n) ?? 'ignore'),
    });
    child.on('spawn', () => {
      groups.add(child.pid);
      send({ id, pid: child.pid });
    });
    child.on('error', (error) => send({ id, failure: { message: error.message, code: error.code } }));
    child.on('exit', (code, killedBy) => {
      groups.delete(child.pid);
      send({ id, code, killedBy });
    });
  } catch (error) {
    send({ id, failure: { message: error.message, code: error.code } });
  }
  // Closes our copies: the child has its own descriptors.
  for (const socket of sockets.values()) socket.destroy();
}

async function openStream(id, descriptor) {
  const socket = connect({ path, allowHalfOpen: true }).pause();
  await once(socket, 'connect');
  // The host closes the socket at once when it has no free descriptor.
  socket.on('error', () => {});
  await new Promise((resolve, reject) => {
    const label = `${id} ${descriptor}`.padEnd(LABEL_BYTES);
    socket.write(label, (error) => (error ? reject(error) : resolve()));
  });
  // Programs expect blocking streams. Node makes only descriptors 0 to 2 blocking.
  socket._handle.setBlocking(true);
  return socket;
}

/** Ends every child with its process group, and then this process. Runs when the host has ended. */
function endAll() {
  for (const group of groups) {
    try {
      process.kill(-group, 'SIGKILL');
    } catch {
      // The group has ended.
    }
  }
  process.exit();
}

function send(reply) {
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}
