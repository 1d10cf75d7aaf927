// Templates of new apps, run by Miniflare.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { newMiniflare } from '../support/miniflare.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const LATE_MS = 30_000;

test('a room of the template chat keeps its last 50 messages only', async (t) => {
  const directory = temporaryDirectory(t);
  const file = (name: string) => readFileSync(resolve('templates/chat/src', name), 'utf8');
  const miniflare = newMiniflare({
    modules: [
      { type: 'ESModule', path: 'index.js', contents: file('index.js') },
      { type: 'ESModule', path: 'room.js', contents: file('room.js') },
      { type: 'Text', path: 'page.html', contents: file('page.html') },
    ],
    compatibilityDate: '2026-10-01',
    durableObjects: { ROOMS: { className: 'Room', useSQLite: true } },
    resourcePersistencePath: directory,
  });
  let isOpen = true;
  const end = async () => {
    if (isOpen) await miniflare.dispose();
    isOpen = false;
  };
  t.after(end);
  /** Enters the room. @returns its socket, and a promise of its messages, which resolves at `count` of them */
  const enter = async (count: number) => {
    const headers = { upgrade: 'websocket' };
    const { webSocket } = await miniflare.dispatchFetch('http://x/rooms/lobby', { headers });
    const { promise, resolve, reject } = Promise.withResolvers<string[]>();
    const timer = setTimeout(() => reject(new Error('too few messages came')), LATE_MS);
    const messages: string[] = [];
    webSocket!.addEventListener('message', ({ data }) => {
      messages.push(String(data));
      if (messages.length === count) resolve(messages);
    });
    webSocket!.accept();
    return { socket: webSocket!, heard: promise.finally(() => clearTimeout(timer)) };
  };
  const first = await enter(60);
  for (let n = 1; n <= 60; n++) first.socket.send(`message ${n}`);
  await first.heard;
  const heard = await (await enter(50)).heard;
  assert.deepEqual([heard[0], heard.at(-1)], ['message 11', 'message 60']);
  await end();
  const counts = globSync('**/*.sqlite', { cwd: directory }).flatMap((name) => {
    const database = new Sqlite(join(directory, name));
    const isRoom = database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'messages'").get();
    const found = isRoom ? [database.prepare('SELECT count(*) FROM messages').pluck().get()] : [];
    database.close();
    return found;
  });
  assert.deepEqual(counts, [50]);
});
