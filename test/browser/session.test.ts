// The connections of an app to a browser session.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import { failed } from '../../runtime/browser/errors.ts';
import { Session } from '../../runtime/browser/session.ts';

const UPGRADE = { headers: {} } as IncomingMessage;

test('a client that left while the browser started takes no connection from others', async () => {
  const session = new Session(
    {
      connections: 1,
      silence: 'the browser does not answer',
      start: async () => {},
      request: async () => {
        throw failed('the request was sent');
      },
      end: () => {},
    },
    60_000,
    () => {},
  );
  try {
    const gone = new Duplex({ read() {}, write() {} });
    gone.destroy();
    await once(gone, 'close');
    await session.connect(null, UPGRADE, gone, Buffer.alloc(0)).catch(() => {});
    const next = new Duplex({ read() {}, write() {} });
    await assert.rejects(session.connect(null, UPGRADE, next, Buffer.alloc(0)), /the request was sent/);
  } finally {
    session.end(1, 'the test ended');
  }
});
