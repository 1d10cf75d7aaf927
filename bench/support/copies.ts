// Copies of one app, written to the databases and directories of a stopped Cellar as if each had been deployed.
import { createHash, createHmac } from 'node:crypto';
import { copyFileSync, existsSync, globSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { newId } from '../../handlers/contract/id.ts';
import { layout } from '../../runtime/disk/data-directory.ts';

export type State = 'awake' | 'hibernating' | 'sleeping';

/** A copy, and the deploy that made it live. */
interface Copy {
  id: string;
  slug: string;
  deployId: string;
}

/** The first user id of the copies. */
const FIRST_UID = 1_000_000;
/** Directory of the apps' Durable Objects in the control plane. workerd also derives their ids from this name. */
const OBJECTS = 'control-AppObject';
const ASLEEP_SINCE = '2026-01-01T00:00:00.000Z';
const PROCESS_STATES = { awake: 'running', hibernating: 'idle', sleeping: 'stopped' };

/** Makes copies of one app in the databases of a stopped Cellar. */
export class Copies {
  readonly #data: string;
  readonly #id: string;
  readonly #deployId: string;
  #copies: Copy[] = [];

  constructor(data: string, id: string, deployId: string) {
    this.#data = data;
    this.#id = id;
    this.#deployId = deployId;
  }

  /** Ids of the existing copies. */
  get ids(): readonly string[] {
    return this.#copies.map(({ id }) => id);
  }

  /**
   * Makes or removes copies until exactly `count` exist, all in one state. Existing copies are kept.
   * @param options.hasFiles false: only rows of databases
   */
  make(count: number, state: State, { hasFiles = true } = {}): void {
    const control = new Database(this.#controlDatabase());
    const host = new Database(join(this.#data, 'host.sqlite'));
    try {
      // Reports that wait for the control plane. It need not get them: it reads the state of all apps at the next start.
      host.prepare('DELETE FROM outbox').run();
      const fresh: Copy[] = [];
      control.transaction(() => {
        host.transaction(() => {
          this.#remove(this.#copies.splice(count), control, host);
          this.#bring(state, control, host);
          for (let index = this.#copies.length; index < count; index++) {
            const copy = { id: newId(), slug: `copy-${index}`, deployId: newId() };
            this.#copies.push(copy);
            fresh.push(copy);
          }
          this.#inControl(fresh, control, state);
          this.#inHost(fresh, host, state);
        })();
      })();
      if (!hasFiles) return;
      for (const copy of fresh) this.#copyDirectories(copy);
      this.#copyObjects(fresh);
    } finally {
      control.close();
      host.close();
    }
  }

  /** Makes all apps keep their data in the bucket, from the next start on. */
  toBucket(): void {
    const control = new Database(this.#controlDatabase());
    const host = new Database(join(this.#data, 'host.sqlite'));
    try {
      control.prepare("UPDATE apps SET storage = 'bucket'").run();
      host.prepare("UPDATE apps SET wanted = json_set(wanted, '$.storage', 'bucket')").run();
    } finally {
      control.close();
      host.close();
    }
  }

  #remove(copies: Copy[], control: Database.Database, host: Database.Database): void {
    const paths = layout(this.#data);
    const ofHost = ['activity', 'held', 'alerts', 'build_users', 'deploys'].map((table) =>
      host.prepare(`DELETE FROM ${table} WHERE app_id = ?`),
    );
    const removals = [
      ...ofHost,
      ...[control, host].map((each) => each.prepare('DELETE FROM apps WHERE id = ?')),
    ];
    for (const { id } of copies) {
      for (const removal of removals) removal.run(id);
      for (const path of [paths.repository(id), join(paths.allReleases, id), paths.data(id), paths.run(id)])
        rmSync(path, { recursive: true, force: true });
    }
    this.#removeObjects(copies);
  }

  #removeObjects(copies: Copy[]): void {
    const directory = join(this.#data, 'control', 'do', OBJECTS);
    const alarms = new Database(join(directory, 'metadata.sqlite'));
    try {
      const removal = alarms.prepare('DELETE FROM _cf_ALARM WHERE actor_id = ?');
      for (const { id } of copies) {
        removal.run(objectId(id));
        for (const suffix of ['', '-wal', '-shm'])
          rmSync(join(directory, `${objectId(id)}.sqlite${suffix}`), { force: true });
      }
    } finally {
      alarms.close();
    }
  }

  /** Puts the existing copies into a state. */
  #bring(state: State, control: Database.Database, host: Database.Database): void {
    control
      .prepare("UPDATE apps SET asleep_since = ?, process_state = ? WHERE slug LIKE 'copy-%'")
      .run(state === 'sleeping' ? ASLEEP_SINCE : null, PROCESS_STATES[state]);
    const asleep = state === 'sleeping' ? 'true' : 'false';
    host
      .prepare(
        "UPDATE apps SET wanted = json_set(wanted, '$.asleep', json(?)) WHERE wanted ->> 'slug' LIKE 'copy-%'",
      )
      .run(asleep);
    host
      .prepare('UPDATE activity SET resting = ? WHERE app_id <> ?')
      .run(state === 'awake' ? 0 : 1, this.#id);
  }

  #inControl(copies: Copy[], database: Database.Database, state: State): void {
    const [app, deploy] = [adder(database, 'apps', this.#id), adder(database, 'deploys', this.#deployId)];
    for (const [index, { id, slug, deployId }] of copies.entries()) {
      const seq = Number(app.row.seq) + 1 + this.#copies.length - copies.length + index;
      app.add({
        id,
        slug,
        seq,
        live_deploy_id: deployId,
        asleep_since: state === 'sleeping' ? ASLEEP_SINCE : null,
        process_state: PROCESS_STATES[state],
      });
      deploy.add({ id: deployId, app_id: id, seq });
    }
  }

  #inHost(copies: Copy[], database: Database.Database, state: State): void {
    const app = adder(database, 'apps', this.#id);
    const rest = database.prepare('INSERT INTO activity (app_id, last_request_at, resting) VALUES (?, ?, ?)');
    const deploy = database.prepare('INSERT INTO deploys (id, app_id, fact) VALUES (?, ?, ?)');
    const fact = JSON.parse(
      String(database.prepare('SELECT fact FROM deploys WHERE id = ?').pluck().get(this.#deployId)),
    );
    const user = database.prepare('INSERT INTO build_users (app_id, uid) VALUES (?, ?)');
    const wanted = JSON.parse(String(app.row.wanted));
    for (const [index, { id, slug, deployId }] of copies.entries()) {
      const own = { ...wanted, id, slug, asleep: state === 'sleeping' };
      app.add({ id, wanted: JSON.stringify(own), live_deploy_id: deployId });
      rest.run(id, Date.now(), state === 'awake' ? 0 : 1);
      deploy.run(deployId, id, JSON.stringify({ ...fact, id: deployId, app_id: id }));
      user.run(id, FIRST_UID + this.#copies.length - copies.length + index);
    }
  }

  #copyDirectories({ id, deployId }: Copy): void {
    const paths = layout(this.#data);
    copyTree(paths.repository(this.#id), paths.repository(id));
    copyTree(paths.data(this.#id), paths.data(id));
    copyTree(paths.release(this.#id, this.#deployId), paths.release(id, deployId));
  }

  /** Copies the app's Durable Object in the control plane: its deploy stream, and the alarm that deletes it. */
  #copyObjects(copies: Copy[]): void {
    const directory = join(this.#data, 'control', 'do', OBJECTS);
    const own = objectId(this.#id);
    if (!existsSync(join(directory, `${own}.sqlite`))) throw new Error('the app has no object');
    const alarms = new Database(join(directory, 'metadata.sqlite'));
    try {
      const add = alarms.prepare(
        `INSERT INTO _cf_ALARM (actor_id, scheduled_time, actor_name)
           SELECT ?, scheduled_time, ? FROM _cf_ALARM WHERE actor_id = ?`,
      );
      alarms.transaction(() => {
        for (const { id } of copies) {
          add.run(objectId(id), id, own);
          copyFileSync(join(directory, `${own}.sqlite`), join(directory, `${objectId(id)}.sqlite`));
        }
      })();
    } finally {
      alarms.close();
    }
  }

  /** Finds the database by its content, because its file name is a hash. */
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

/** Returns the id that workerd gives an object of the control plane by its name. */
function objectId(name: string): string {
  const key = createHash('sha256').update(OBJECTS).digest();
  const half = (of: string | Buffer) => createHmac('sha256', key).update(of).digest().subarray(0, 16);
  return Buffer.concat([half(name), half(half(name))]).toString('hex');
}

/** Returns a function that adds copies of the row with this id, with some columns changed. */
function adder(database: Database.Database, table: string, id: string) {
  const row = database.prepare(`SELECT * FROM ${table} WHERE id = ?`).get(id) as Record<string, unknown>;
  const names = Object.keys(row);
  const insert = database.prepare(
    `INSERT INTO ${table} (${names}) VALUES (${names.map((name) => `@${name}`)})`,
  );
  return { row, add: (own: Record<string, unknown>) => void insert.run({ ...row, ...own }) };
}

/** Copies the directories and files of a tree, without its sockets. */
function copyTree(from: string, to: string): void {
  mkdirSync(to, { recursive: true, mode: 0o755 });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, copy] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) copyTree(source, copy);
    else if (entry.isFile()) copyFileSync(source, copy);
  }
}
