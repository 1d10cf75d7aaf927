// The view of the hosts: what needs attention, and what is known of a host.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attention, type Host, isClockOff, loadOf } from '../../../ui/models/hosts.ts';

const host = (changes: Partial<Host> = {}): Host => ({
  ...{ id: '1', name: 'box1', address: '10.0.0.1:8790', version: '1.0.0', state: 'active' },
  ...{ apps: 3, local_apps: 0, started_at: '2026-01-01T00:00:00.000Z', silent_since: null },
  ...{ reported_at: '2026-01-02T00:00:00.000Z', clock_ahead_ms: 5 },
  load: {
    ...{ memory_free_bytes: 1, memory_total_bytes: 4, cpu: 0.5, disk_free_bytes: 2, disk_total_bytes: 8 },
    running: 1,
  },
  ...changes,
});

test('well hosts need no attention', () => {
  assert.deepEqual(attention([]), []);
  assert.deepEqual(attention([host(), host({ clock_ahead_ms: null })]), []);
});

test('a silent host is named, with the apps that wait for it', () => {
  const silent = host({ name: 'box2', state: 'silent', silent_since: '2026-01-02T00:00:00.000Z' });
  assert.deepEqual(attention([host(), silent]), [
    'box2 does not report. Its apps in the bucket run on other hosts.',
  ]);
  assert.match(
    attention([{ ...silent, local_apps: 2 }]).join(),
    /2 apps with data on that host answer 503\.$/,
  );
  assert.equal(loadOf(silent), null);
  assert.equal(loadOf(host())?.running, 1);
});

test('clocks and versions that differ are named, but not the version of a silent host', () => {
  assert.equal(isClockOff(host({ clock_ahead_ms: 1_000 })), false);
  assert.match(attention([host({ clock_ahead_ms: -1_001 })]).join(), /^The clock of box1 differs/);
  const older = host({ id: '2', version: '0.9.0' });
  assert.match(attention([host(), older]).join(), /different versions: 1\.0\.0, 0\.9\.0/);
  assert.doesNotMatch(attention([host(), { ...older, state: 'silent' }]).join(), /versions/);
});
