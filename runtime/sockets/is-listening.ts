// Whether something listens at an address of this machine.
import { connect } from 'node:net';

/** Longest wait for an answer, in ms. The kernel answers for a busy process too. */
const ANSWER_MS = 1_000;

/** Returns whether something listens at the port. Only a refused connection counts as not listening. */
export function isListening(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: ANSWER_MS });
    const end = (listens: boolean) => {
      socket.destroy();
      resolve(listens);
    };
    socket.once('connect', () => end(true));
    socket.once('timeout', () => end(true));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code !== 'ECONNREFUSED'));
  });
}
