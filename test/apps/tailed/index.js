// A Worker with a tail: each path makes events of another kind.

import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';
import { channel } from 'node:diagnostics_channel';

export class Room extends DurableObject {
  async add(a, b) {
    console.log('in the room');
    return a + b;
  }
  fail() {
    throw new RangeError('the room failed');
  }
  async wakeUp() {
    await this.ctx.storage.setAlarm(Date.now());
  }
  alarm() {
    console.log('the alarm');
  }
}

export class Admin extends WorkerEntrypoint {
  fetch() {
    console.log('asked the admin');
    return new Response('admin');
  }
  sum(a, b) {
    console.log('sum', a, b);
    return a + b;
  }
}

const ways = {
  log() {
    console.log('%s of 100%', 'text', { a: 1 }, [1, [2]], null, undefined, true, 1n, () => {});
    console.debug({ first: 'an object' }, 'then a text');
    console.info();
    console.warn(new Error('printed'), 'after an error');
    console.error('before an error', new TypeError('printed too'), 12);
    console.error(new TypeError('alone'));
  },
  throws() {
    console.log('before');
    throw new RangeError('thrown');
  },
  async rejects() {
    await scheduler.wait(1);
    throw new RangeError('rejected');
  },
  text() {
    throw 'a text';
  },
  later(_env, context) {
    context.waitUntil(scheduler.wait(20).then(() => Promise.reject(new Error('later'))));
  },
  channel() {
    channel('orders').publish({ order: 1 });
  },
  room: ({ ROOM }) => ROOM.getByName('a').add(1, 2),
  roomFails: ({ ROOM }) =>
    ROOM.getByName('a')
      .fail()
      .catch(() => {}),
  alarm: ({ ROOM }) => ROOM.getByName('a').wakeUp(),
  sum: ({ ADMIN }) => ADMIN.sum(1, 2),
  admin: async ({ ADMIN }) => (await ADMIN.fetch('http://admin/path')).text(),
  queue: ({ JOBS }) => JOBS.send('a job'),
  failsInTail() {
    console.log('fail in the tail');
  },
};

export default {
  async fetch(request, env, context) {
    const { pathname } = new URL(request.url);
    const way = ways[pathname.slice(1)];
    return Response.json((await way?.(env, context)) ?? null, { status: way ? 201 : 200 });
  },
  queue({ messages }) {
    for (const { body } of messages) console.log('got', body);
  },
  scheduled({ cron }) {
    console.log('runs', cron);
    if (cron === '0 0 1 1 *') throw new Error('the cron failed');
  },
};
