// Many copies of one app, made in the databases and directories of a Cellar that does not run.
import { copyFileSync, cpSync, globSync, linkSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { newId } from '../handlers/contract/id.ts';

export type State = 'awake' | 'hibernating' | 'sleeping';

/** Of the users that the copies get. */
const FIRST_UID = 1_000_000;

/** Makes copies of one app in the databases of a Cellar that does not run. */
export class Copies {
  readonly #data: string;
  readonly #id: string;
  readonly #deployId: string;
  #ids: string[] = [];

  constructor(data: string, id: string, deployId: string) {
    this.#data = data;
    this.#id = id;
    this.#deployId = deployId;
  }

  /** Those that there are. */
  get ids(): readonly string[] {
    return this.#ids;
  }

  /** Has exactly `count` copies, all in one state. */
  make(count: number, state: State): void {
    const control = new Database(this.#controlDatabase());
    const host = new Database(join(this.#data, 'host.sqlite'));
    try {
      this.#remove(control, host);
      this.#ids = Array.from({ length: count }, () => newId());
      control.transaction(() => this.#inControl(control, state))();
      host.transaction(() => this.#inHost(host, state))();
    } finally {
      control.close();
      host.close();
    }
    for (const id of this.#ids) {
      this.#copyRelease(id, state);
      this.#copyRepository(id);
    }
  }

  #remove(control: Database.Database, host: Database.Database): void {
    control.prepare("DELETE FROM apps WHERE slug LIKE 'copy-%'").run();
    const ids = "(SELECT id FROM apps WHERE wanted ->> 'slug' LIKE 'copy-%')";
    for (const table of ['activity', 'held', 'alerts', 'build_users', 'deploys'])
      host.prepare(`DELETE FROM ${table} WHERE app_id IN ${ids}`).run();
    host.prepare('DELETE FROM outbox').run();
    host.prepare(`DELETE FROM apps WHERE id IN ${ids}`).run();
  }

  #inControl(database: Database.Database, state: State): void {
    const row = database.prepare('SELECT * FROM apps WHERE id = ?').get(this.#id) as Record<string, unknown>;
    const names = Object.keys(row);
    const add = database.prepare(`INSERT INTO apps (${names}) VALUES (${names.map((name) => `@${name}`)})`);
    const asleep_since = state === 'sleeping' ? '2026-01-01T00:00:00.000Z' : null;
    const process_state = { awake: 'running', hibernating: 'idle', sleeping: 'stopped' }[state];
    for (const [index, id] of this.#ids.entries())
      add.run({
        ...row,
        id,
        slug: `copy-${index}`,
        seq: Number(row.seq) + 1 + index,
        asleep_since,
        process_state,
      });
  }

  #inHost(database: Database.Database, state: State): void {
    const row = database.prepare('SELECT * FROM apps WHERE id = ?').get(this.#id) as Record<string, unknown>;
    const names = Object.keys(row);
    const add = database.prepare(`INSERT INTO apps (${names}) VALUES (${names.map((name) => `@${name}`)})`);
    const rest = database.prepare('INSERT INTO activity (app_id, last_request_at, resting) VALUES (?, ?, ?)');
    const deploy = database.prepare('INSERT INTO deploys (id, app_id, fact) VALUES (?, ?, ?)');
    const fact = JSON.parse(
      String(database.prepare('SELECT fact FROM deploys WHERE id = ?').pluck().get(this.#deployId)),
    );
    const user = database.prepare('INSERT INTO build_users (app_id, uid) VALUES (?, ?)');
    const wanted = JSON.parse(String(row.wanted));
    for (const [index, id] of this.#ids.entries()) {
      const own = { ...wanted, id, slug: `copy-${index}`, asleep: state === 'sleeping' };
      add.run({ ...row, id, wanted: JSON.stringify(own) });
      rest.run(id, Date.now(), state === 'awake' ? 0 : 1);
      const deployId = newId();
      deploy.run(deployId, id, JSON.stringify({ ...fact, id: deployId, app_id: id }));
      user.run(id, FIRST_UID + index);
    }
  }

  #copyRepository(id: string): void {
    const [from, to] = [this.#id, id].map((each) => join(this.#data, 'repos', `${each}.git`));
    cpSync(from!, to!, { recursive: true });
  }

  /** What runs has files of its own, which belong to its user. */
  #copyRelease(id: string, state: State): void {
    const copy = state === 'awake' ? copyFileSync : linkSync;
    const from = join(this.#data, 'releases', this.#id, this.#deployId);
    const to = join(this.#data, 'releases', id, this.#deployId);
    for (const entry of globSync('**', { cwd: from, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name).slice(from.length);
      if (entry.isDirectory()) mkdirSync(to + path, { recursive: true, mode: 0o755 });
      else copy(from + path, to + path);
    }
  }

  /** Miniflare names the file by itself. */
  #controlDatabase(): string {
    const files = globSync(join(this.#data, 'control', '**', '*.sqlite'));
    const found = files.find((path) => {
      const database = new Database(path, { readonly: true });
      try {
        return (
          database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'collaborators'").get() !== undefined
        );
      } finally {
        database.close();
      }
    });
    if (found === undefined) throw new Error("the control plane's database was not found");
    return found;
  }
}
