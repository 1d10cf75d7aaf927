// Runs the control plane's code in the test's process, with SQLite in memory. A test decides when each round trip to the
// database and to the host ends, and whether it fails. So a test can try thousands of interleavings in seconds.
import { fileURLToPath } from 'node:url';
import Sqlite from 'better-sqlite3';
import { build } from 'esbuild';
import type { ErrorCode } from '../../../handlers/contract/errors.ts';
import type { HostEvents } from '../../../handlers/contract/host/host-calls.ts';
import type { HostReport, KnownHost } from '../../../handlers/contract/host/hosts.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const ENTRY = `
  export { AppObject } from './handlers/app/app-object.ts';
  export { HostsObject } from './handlers/hosts/hosts-object.ts';
  export { hostReport } from './handlers/hosts/report.ts';
  export { HostClient } from './handlers/host/host-client.ts';
  export { reconcile } from './handlers/host/reconcile.ts';
  export { ensureFirstAccount } from './sqlite/control/people/accounts.ts';
  export { applyHostEvents } from './sqlite/control/apps/host-events.ts';
  export { migrate } from './sqlite/control/migrations.ts';
`;

/** The result of a call to an app's object. */
export type Outcome<Value> = { ok: true; value: Value } | { ok: false; code: ErrorCode; detail: string };

/** The columns of `apps` about an app's state. */
export interface LifeRow {
  id: string;
  desired_state: 'running' | 'stopped';
  asleep_since: string | null;
  woke_at: string | null;
  generation: number;
  process_state: string;
  live_deploy_id: string | null;
}

/** The Durable Object of one app. */
export interface ControlObject {
  create(app: object): Promise<Outcome<LifeRow>>;
  start(id: string): Promise<Outcome<LifeRow>>;
  stop(id: string): Promise<Outcome<LifeRow>>;
  sleep(id: string): Promise<Outcome<LifeRow>>;
}

/** The Durable Object of all hosts. */
export interface ControlHosts {
  report(report: HostReport): Promise<Outcome<KnownHost[]>>;
  place(): Promise<string | null>;
  drain(id: string, drains: boolean): Promise<Outcome<null>>;
  remove(id: string): Promise<Outcome<null>>;
}

/** The parts of the control plane that change an app's state. */
export interface ControlCode {
  AppObject: new (state: object, env: object) => ControlObject;
  HostsObject: new (state: object, env: object) => ControlHosts;
  hostReport(request: Request, context: object): Promise<Response>;
  HostClient: new (env: object) => object;
  reconcile(context: object): Promise<{ refused: number }>;
  ensureFirstAccount(db: object, account: object, key: object): Promise<void>;
  applyHostEvents(db: object, events: HostEvents): Promise<string[]>;
  migrate(db: object): Promise<void>;
}

/** Bundles the control plane's code as the host does, and imports it. */
export async function loadControl(): Promise<ControlCode> {
  const { outputFiles } = await build({
    stdin: { contents: ENTRY, resolveDir: ROOT },
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'es2024',
    loader: { '.sql': 'text' },
    logLevel: 'silent',
    plugins: [
      {
        name: 'cloudflare:workers',
        setup: ({ onResolve, onLoad }) => {
          onResolve({ filter: /^cloudflare:workers$/ }, ({ path }) => ({ path, namespace: 'workerd' }));
          onLoad({ filter: /./, namespace: 'workerd' }, () => ({ contents: DURABLE_OBJECT }));
        },
      },
    ],
  });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0]!.contents).toString('base64')}`);
}

const DURABLE_OBJECT = `export class DurableObject {
  constructor(ctx, env) {
    this.ctx = ctx;
    this.env = env;
  }
}`;

/** Runs `work` at a time that a test chooses. */
export type Gate = <Value>(work: () => Value) => Promise<Value>;

interface Statement {
  sql: string;
  values: unknown[];
}

/** The control plane's database, with the part of D1's interface that its code uses. */
export class MemoryD1 {
  readonly #database = new Sqlite(':memory:');
  readonly #statements = new Map<string, { statement: Sqlite.Statement; numbered: boolean }>();

  /** Returns the D1 binding of one isolate. @param gate decides when each round trip runs */
  through(gate: Gate): object {
    const statement = ({ sql, values }: Statement) => ({
      sql,
      values,
      bind: (...bound: unknown[]) => statement({ sql, values: bound }),
      first: () => gate(() => this.all({ sql, values })[0] ?? null),
      all: () => gate(() => ({ results: this.all({ sql, values }), meta: { changes: 0 } })),
      run: () => gate(() => ({ results: this.all({ sql, values }) })),
    });
    const transact = this.#database.transaction((statements: Statement[]) =>
      statements.map((one) => ({ results: this.all(one) })),
    );
    const batch = (statements: Statement[]) => gate(() => transact(statements));
    return { prepare: (sql: string) => statement({ sql, values: [] }), batch };
  }

  /** Runs one statement and returns its rows. */
  all({ sql, values }: Statement): unknown[] {
    let prepared = this.#statements.get(sql);
    if (prepared === undefined) {
      prepared = { statement: this.#database.prepare(sql), numbered: /\?\d/.test(sql) };
      this.#statements.set(sql, prepared);
    }
    const { statement, numbered } = prepared;
    // For numbered parameters such as `?1`, better-sqlite3 needs an object with the numbers as keys.
    const bound = numbered ? [Object.fromEntries(values.map((value, n) => [n + 1, value]))] : values;
    if (statement.reader) return statement.all(...bound);
    statement.run(...bound);
    return [];
  }

  close(): void {
    this.#database.close();
  }
}
