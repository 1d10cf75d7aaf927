// A part of a host, for tests in which an app calls another app by a service binding.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import type { TestContext } from 'node:test';
import type { KnownApps } from '../../../runtime/apps/known/known-apps.ts';
import { Services } from '../../../runtime/apps/services.ts';
import { layout } from '../../../runtime/disk/data-directory.ts';
import { Gateway } from '../../../runtime/edge/gateway.ts';
import { Upstream } from '../../../runtime/edge/upstream/upstream.ts';
import type { Cell } from '../../../runtime/fleets/process/cell.ts';
import { CallDepths } from '../../../runtime/hosts/call-depths.ts';

const [CALLER, CALLED] = ['c'.repeat(16), 'd'.repeat(16)];

/**
 * Returns the object by which a calling app reaches the app in `cell`. The account `o` owns the calling app.
 * @param caller slug of the calling app
 * @param directory the host's data directory
 */
export function accessTo(
  t: TestContext,
  { cell, slug, owner }: { cell: Cell; slug: string; owner: string },
  caller: string,
  directory: string,
) {
  const upstream = new Upstream({ socketPath: cell.socketPath('http') }, undefined, cell.callSockets);
  const gateway = new Gateway({ resolve: () => assert.fail('only calls'), holdTimeoutMs: 10_000 });
  t.after(() => gateway.close(0));
  const paths = layout(directory);
  mkdirSync(paths.run(CALLER), { recursive: true });
  const fleet = { site: CALLED, admit: () => ({ kind: 'forward', upstream }) };
  const apps = {
    resolve: (host: string) => (host === `${slug}.test` ? fleet : undefined),
    originOf: (id: string) => id,
    slugOf: () => caller,
    get: (id: string) =>
      id === CALLER ? { wanted: { owner: 'o' } } : { wanted: { owner, slug }, fleet, fleetFor: () => fleet },
  } as unknown as KnownApps;
  const services = new Services({
    ...{ paths, baseDomain: 'test', gateway: () => gateway, users: () => ({ build: null, cell: null }) },
    ...{ apps: () => apps, hosts: null, depths: new CallDepths() },
    store: { outbound: () => null, setOutbound: () => {} },
    storeSecrets: { get: () => assert.fail('no secret was asked for') },
  });
  t.after(() => services.forget(CALLER));
  return services.access(CALLER);
}
