// A fleet with its state in a temporary directory. Sends requests through it as the gateway does.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import type { TestContext } from 'node:test';
import type { Release } from '../../../bundler/release.ts';
import type { ProcessState } from '../../../handlers/contract/host/host-calls.ts';
import { MemoryGauge } from '../../../runtime/fleets/admission/memory.ts';
import { Slots } from '../../../runtime/fleets/admission/slots.ts';
import { WakeFigures } from '../../../runtime/fleets/admission/wake-figures.ts';
import { alarmsOnDisk } from '../../../runtime/fleets/due/alarms.ts';
import { DueReader } from '../../../runtime/fleets/due/due.ts';
import { Fleet, type FleetOptions, type RestingApp } from '../../../runtime/fleets/life/fleet.ts';
import type { ProcessFailure } from '../../../runtime/fleets/life/supervisor.ts';
import { CellFilesCache } from '../../../runtime/fleets/process/cell-files.ts';
import { lineSink } from '../../../runtime/fleets/process/cell-output.ts';
import { askUpstream } from '../edge/ask.ts';
import { temporaryDirectory } from '../temporary.ts';
import { makeRelease, workerd } from './release.ts';

/** Longest wait for an event, in ms. */
const DEADLINE_MS = 120_000;

/** A Worker that counts in a Durable Object and in D1, and returns its version. `/loop` never returns; `/slow` takes 400 ms. */
export const COUNTING = (version: number) => `
import { DurableObject } from 'cloudflare:workers';
export class Counter extends DurableObject {
  async add() {
    const n = ((await this.ctx.storage.get('n')) ?? 0) + 1;
    await this.ctx.storage.put('n', n);
    return n;
  }
}
export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === '/version') return new Response('${version}');
    if (pathname === '/loop') for (;;);
    if (pathname === '/slow') await scheduler.wait(400);
    await env.DB.prepare('INSERT INTO hits VALUES (${version})').run();
    const rows = await env.DB.prepare('SELECT count(*) AS n FROM hits').first('n');
    return Response.json({ version: ${version}, count: await env.COUNTER.getByName('one').add(), rows });
  },
};`;

const STORAGE: Partial<Release> = {
  classes: [{ className: 'Counter', storageId: 'counter', sql: true }],
  durableObjects: [{ binding: 'COUNTER', className: 'Counter' }],
};

export interface Harness {
  fleet: Fleet;
  options: FleetOptions;
  /** Samples memory and calls the fleet's tick, as the host's timer does. */
  tick: () => void;
  root: string;
  states: [ProcessState, string | null][];
  lines: string[];
  /** The values passed to `onRest`: what the host stores while the app has no process. */
  rests: (RestingApp | null)[];
  /** The values passed to `onFailure`. */
  failures: ProcessFailure[];
  /** Writes a release. Default: the Worker `COUNTING` with one D1 migration. `more` overrides fields of `release.json`. */
  release: (
    version: number,
    options?: { code?: string; migrations?: Record<string, string>; more?: Partial<Release> },
  ) => Promise<{ deployId: string; directory: string }>;
  ask: (path: string) => Promise<{ status: number; text: string }>;
  /** Resolves once `condition` holds. Checks it now, and at each change of state, each call of `onRest` and each log line. */
  until: (condition: () => boolean, deadlineMs?: number) => Promise<void>;
  /** Resolves when the idle process has ended and the fleet has stored its next due time. */
  rested: () => Promise<void>;
}

export function harness(t: TestContext, own: Partial<FleetOptions> = {}): Harness {
  const root = temporaryDirectory(t);
  const states: [ProcessState, string | null][] = [];
  const lines: string[] = [];
  const rests: (RestingApp | null)[] = [];
  const failures: ProcessFailure[] = [];
  const watchers = new Set<() => void>();
  const changed = () => {
    for (const watcher of watchers) watcher();
  };
  const onLine = (line: string) => {
    lines.push(line);
    changed();
  };
  const { memory = new MemoryGauge(0, 512) } = own;
  const options: FleetOptions = {
    appId: 'app1',
    directories: { run: `${root}/run`, data: `${root}/data` },
    workerd,
    user: null,
    idleMs: Number.POSITIVE_INFINITY,
    lastRequestAt: null,
    owner: () => 'account',
    slots: new Slots(4, 10_000),
    memoryMb: 512,
    memory,
    secrets: () => ({}),
    wakes: new WakeFigures(),
    onAsleep: () => {},
    output: () => lineSink(onLine),
    say: (_, words) => onLine(words),
    onFailure: (failure) => failures.push(failure),
    onRest: async (rest) => {
      rests.push(rest);
      changed();
    },
    onState: (state, lastError) => {
      states.push([state, lastError]);
      changed();
    },
    ...own,
  };
  const fleet = new Fleet(options);
  t.after(() => fleet.close());

  const until: Harness['until'] = (condition, deadlineMs) => {
    let check = () => {};
    const fulfilled = new Promise<void>((resolve) => {
      check = () => {
        if (condition()) resolve();
      };
    });
    watchers.add(check);
    check();
    return withDeadline(fulfilled, 'a state is waited for', deadlineMs).finally(() => watchers.delete(check));
  };

  const rested = () => until(() => fleet.pid === null && rests.at(-1)?.dueAt !== undefined);

  const release: Harness['release'] = (version, { code = COUNTING(version), migrations, more } = {}) => {
    const files = migrations ?? { '1.sql': 'CREATE TABLE hits(version)' };
    const list = Object.keys(files).map((name) => ({ name, path: `sql/${name}` }));
    const databases = [{ binding: 'DB', storageId: 'main', migrations: list }];
    const fields = { ...(code.includes('class Counter') && STORAGE), databases, ...more };
    const placed = Object.fromEntries(Object.entries(files).map(([name, sql]) => [`sql/${name}`, sql]));
    return makeRelease(`${root}/release-${version}`, code, fields, placed);
  };
  const tick = () => {
    void memory.sample();
    fleet.tick();
  };
  return {
    fleet,
    options,
    tick,
    root,
    states,
    lines,
    rests,
    failures,
    release,
    ask: (path) => ask(fleet, path),
    until,
    rested,
  };
}

/** Sends a request as the gateway does: waits while the fleet queues it, then reads the whole answer. */
async function ask(fleet: Fleet, path: string): Promise<{ status: number; text: string }> {
  for (;;) {
    const admission = fleet.admit();
    if (admission.kind === 'refuse') return { status: admission.status, text: admission.detail };
    if (admission.kind === 'hold') {
      await withDeadline(admission.ready, 'a request is held');
      continue;
    }
    assert.ok(admission.kind === 'forward');
    return askUpstream(admission.upstream, path);
  }
}

async function withDeadline(event: Promise<void>, what: string, deadlineMs = DEADLINE_MS): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} for more than ${deadlineMs / 1000} s`)), deadlineMs);
  });
  await Promise.race([event, late]).finally(() => clearTimeout(timer));
}

/** Returns a reader of due times in a data directory. The reader of a fleet may use the directory at the same time. */
export function dueReader(data: string): DueReader {
  const files = new CellFilesCache(`${data}-files-of-test`, 512);
  const workOf = async (release: string) => (await files.of(release)).due;
  const scratch = `${data}/alarms-of-test`;
  return new DueReader({
    workOf,
    readAlarms: alarmsOnDisk(data, { owner: () => 'test', user: null, scratch }),
  });
}

/** Returns when a release next has due work, such as an alarm; null if never. A fleet without a process uses the same code. */
export function nextDue(release: string, data: string): Promise<number | null> {
  return dueReader(data).next(release, AbortSignal.timeout(DEADLINE_MS));
}

export function assertGone(pid: number | null): void {
  assert.ok(pid !== null && !existsSync(`/proc/${pid}/exe`), `process ${pid} lives on`);
}
