// All followers of an app share one output limit, and get the number of events that were left out.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Listeners } from '../../runtime/telemetry/listeners.ts';
import type { StreamPiece } from '../../runtime/telemetry/protocol.ts';
import { eventually } from '../support/processes.ts';

const MIB = 1024 * 1024;
const APP = 'app1';

function following(followers: number, appId = APP, listeners = new Listeners()) {
  const pieces = Array.from({ length: followers }, (): StreamPiece[] => []);
  for (const its of pieces) {
    listeners.add(appId, { events: listeners.sender(appId, (sent) => its.push(...sent)) });
  }
  const send = (text: string, id: number) => {
    for (const { events } of listeners.of(appId)!) events.send(() => text, id);
  };
  const lengths = () => pieces.map((its) => its.reduce((sum, { text }) => sum + text.length, 0));
  return { listeners, pieces, send, lengths };
}

test('a hundred followers of a loud app share the output of two, and get the number of missing events', async () => {
  const event = `data: ${'x'.repeat(1_000)}\n\n`;
  const { pieces, send, lengths } = following(100);
  const one = following(1);
  const events = 4_000;
  for (let id = 0; id < events; id++) {
    send(event, id);
    one.send(event, id);
  }
  const heard = (its: StreamPiece[]) => its.reduce((sum, piece) => sum + piece.events, 0);
  await eventually(() => pieces.every((its) => heard(its) === events), 'each is told what is missing');
  const all = lengths().reduce((sum, length) => sum + length);
  assert.ok(all < 8 * MIB, `${all} characters are sent`);
  assert.ok(Math.max(...lengths()) < 1.1 * Math.min(...lengths()) + event.length, 'each has its share');
  for (const its of pieces) {
    const text = its.map((piece) => piece.text).join('');
    const sent = text.split(event).length - 1;
    const told = [...text.matchAll(/^event: skipped\ndata: \{"count":(\d+)\}$/gm)];
    const skipped = told.reduce((sum, [, count]) => sum + Number(count), 0);
    assert.equal(sent + skipped, events);
  }
  assert.equal(one.lengths()[0], events * event.length, 'one alone is sent all of it');
});

test('the stream of a deleted app ends after its last event', async () => {
  const { listeners, pieces, send } = following(1);
  send('data: last\n\n', 7);
  listeners.end(APP);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(
    pieces[0]!.map(({ text, lastId, isLast }) => [text, lastId, isLast]),
    [
      ['data: last\n\n', 7, false],
      ['', null, true],
    ],
  );
});
