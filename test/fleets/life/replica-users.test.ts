// An app with several processes under a user of its own, behind the packet filter.
// Runs as root too.
import assert from 'node:assert/strict';
import { chmodSync } from 'node:fs';
import { test } from 'node:test';
import { Firewall, openFirewall } from '../../../runtime/isolation/firewall.ts';
import { clusterIn } from '../../support/bucket/clusters.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';
import { harness } from '../../support/fleets/harness.ts';
import { askMany, COUNTING, whoServes } from '../../support/fleets/replicas.ts';
import { NEEDS_RULES, RULES } from '../../support/rules.ts';

const CLOSED = { egress: [], ownPorts: [], proxies: [], openPorts: [] };

test(
  'with users and packet filter rules the processes of one of several hosts reach each other',
  NEEDS_RULES,
  async (t) => {
    await using store = await new MemoryStore().start();
    // No other test has rules for this user.
    const user = { uid: 111_001, gid: 111_001 };
    const openPorts = [Number(new URL(store.endpoint).port)];
    const firewall = await openFirewall(RULES, [{ build: null, cell: user }], { ...CLOSED, openPorts });
    assert.ok(firewall instanceof Firewall, String(firewall));
    t.after(() => firewall.close());
    const cluster = clusterIn(store, 'app1', { host: '127.0.0.2' });
    const app = harness(t, { cluster, user });
    chmodSync(app.root, 0o711);
    app.fleet.scale(2);
    await app.fleet.start(await app.release(1, { code: COUNTING(1) }));
    await app.until(() => app.fleet.processes === 2);
    const counts = await askMany(app, '/add', 40, 8);
    assert.equal(new Set(counts.map(({ text }) => text)).size, 40);
    assert.equal((await whoServes(app)).length, 2);
  },
);
