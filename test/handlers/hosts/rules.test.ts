// Rules for several hosts: where apps go, which host is lost, and how metrics are merged.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mergeMetrics } from '../../../handlers/hosts/merged-metrics.ts';
import { roomiest } from '../../../handlers/hosts/placement.ts';
import { type Heard, isSilent, SILENT_MS } from '../../../handlers/hosts/silence.ts';
import { LOAD, reportOf } from '../../support/handlers/hosts.ts';

const GIB = 2 ** 30;

test('an app goes where most memory is free, then processor, then disk, then to the fewest apps', () => {
  const of = (id: string, changed = {}, placed = 0) => ({ id, load: { ...LOAD, ...changed }, placed });
  assert.equal(roomiest([]), null);
  assert.equal(roomiest([of('a'), of('b', { memory_free_bytes: 9 * GIB, cpu: 0.9 })]), 'b');
  assert.equal(roomiest([of('a', { cpu: 0.7 }), of('b', { disk_free_bytes: GIB })]), 'b');
  assert.equal(roomiest([of('a', { disk_free_bytes: GIB }), of('b', { apps: 9 })]), 'b');
  assert.equal(roomiest([of('a', { apps: 3 }), of('b', { apps: 2 })]), 'b');
  assert.equal(
    roomiest([of('a', {}, 1), of('b')]),
    'b',
    'an app that was placed counts before it is reported',
  );
});

function known(heard: [string, number, string[]][], { now = 0, since = 0, ids = ['a', 'b', 'c'] } = {}) {
  const map = new Map<string, Heard>(
    heard.map(([id, at, lost]) => {
      const unanswered = lost.map((each) => ({ id: each, ms: SILENT_MS }));
      return [id, { at, report: reportOf(id, { unanswered }) }];
    }),
  );
  return { now, since, heard: map, ids };
}

test('a host that does not report for 20 s is silent', () => {
  const heard: [string, number, string[]][] = [
    ['a', 19_999, []],
    ['b', 1, []],
  ];
  assert.equal(isSilent('b', known(heard, { now: 20_000 })), false);
  assert.equal(isSilent('b', known(heard, { now: 20_001 })), true);
  assert.equal(isSilent('c', known(heard, { now: 19_999 })), false);
  assert.equal(isSilent('c', known(heard, { now: 20_000 })), true);
  assert.equal(isSilent('c', known(heard, { now: 20_000, since: 1 })), false);
});

test('before that, a host is silent when all others say so, and none of them has yet to report', () => {
  assert.equal(isSilent('c', known([['a', 0, ['c']]])), false, 'b may know better');
  assert.equal(
    isSilent(
      'c',
      known([
        ['a', 0, ['c']],
        ['b', 0, []],
      ]),
    ),
    false,
  );
  assert.equal(
    isSilent(
      'c',
      known([
        ['a', 0, ['c']],
        ['b', 0, ['c']],
      ]),
    ),
    true,
  );
  assert.equal(isSilent('c', known([['a', 0, ['b', 'c']]])), true, 'both are lost');
  assert.equal(isSilent('b', known([['a', 0, ['b']]], { ids: ['a', 'b'] })), true);
  assert.equal(isSilent('a', known([], { ids: ['a'] })), false);
  assert.equal(
    isSilent(
      'a',
      known([
        ['a', 0, []],
        ['b', 0, ['a']],
      ]),
    ),
    false,
    'it reports',
  );
});

test('metrics of several hosts are one document, in which each sample names its host', () => {
  const document = (n: number) =>
    [
      '# HELP cellar_requests Requests.',
      '# TYPE cellar_requests counter',
      `cellar_requests{app="a",status="200"} ${n}`,
      '# HELP cellar_rss Bytes.',
      '# TYPE cellar_rss gauge',
      `cellar_rss ${n}`,
      '',
    ].join('\n');
  assert.equal(
    mergeMetrics([
      { id: '1', name: 'one', text: document(1) },
      { id: '2', name: 'a "b"', text: document(2) },
      { id: '3', name: 'away', text: null },
    ]),
    [
      '# HELP cellar_host_up Whether the host answers.',
      '# TYPE cellar_host_up gauge',
      'cellar_host_up{host="one"} 1',
      'cellar_host_up{host="a \\"b\\""} 1',
      'cellar_host_up{host="away"} 0',
      '# HELP cellar_requests Requests.',
      '# TYPE cellar_requests counter',
      'cellar_requests{host="one",app="a",status="200"} 1',
      'cellar_requests{host="a \\"b\\"",app="a",status="200"} 2',
      '# HELP cellar_rss Bytes.',
      '# TYPE cellar_rss gauge',
      'cellar_rss{host="one"} 1',
      'cellar_rss{host="a \\"b\\""} 2',
      '',
    ].join('\n'),
  );
});

test('hosts with one name are told apart by their ids', () => {
  const hosts = ['1', '2'].map((id) => ({ id, name: 'box', text: null }));
  assert.match(mergeMetrics(hosts), /cellar_host_up\{host="1"\} 0\ncellar_host_up\{host="2"\} 0/);
});
