// Protects outgoing requests from servers that never send the awaited response: they send interim responses (1xx) without
// end, or switch protocols.
import type { ClientRequest } from 'node:http';

/** Maximum interim responses (1xx) before the response. */
const INTERIM_MOST = 10;

/**
 * Ends a request whose server sends too many interim responses, or switches protocols.
 * @param onSwitch called with the status of a response that switches protocols, after its connection was closed
 */
export function endOddAnswers(call: ClientRequest, onSwitch: (status: number) => void): void {
  // Without a listener, Node closes the connection and reports nothing.
  call.once('upgrade', (response, socket) => {
    socket.destroy();
    onSwitch(response.statusCode!);
  });
  let interim = 0;
  call.on('information', () => {
    if (++interim > INTERIM_MOST) call.destroy(new Error('it sent too many interim responses (1xx)'));
  });
}
