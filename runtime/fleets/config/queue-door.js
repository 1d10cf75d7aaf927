// The queues of an app, with a door for what other apps of the same owner send to them. The host says to which.

import { env, WorkerEntrypoint } from 'cloudflare:workers';
import queues from './queues.js';

export { QueueShard } from './queues.js';
export default queues;

/** Says what is asked for, as JSON. Written by the host. */
const CALL_HEADER = 'x-cellar-call';

export class QueueDoor extends WorkerEntrypoint {
  fetch(request) {
    const { queue } = JSON.parse(request.headers.get(CALL_HEADER));
    if (!Object.hasOwn(env.CONSUMERS, queue))
      return new Response('The queue has no consumer.', { status: 404 });
    return queues.fetch(request, env, { props: { queue } });
  }
}
