// Tracks whether an operation has changed something, or may have done so. An unexpected error alone does not show this.
import type { Context } from '../context.ts';

const READ = /^\s*SELECT\b/i;
/** D1's prefix for an error of SQLite. After such an error, the whole batch is rolled back. */
const REFUSED = /^D1_ERROR\b/;

interface Watched {
  statement: D1PreparedStatement;
  reads: boolean;
}

/** Returns a context for one operation, and a function that returns whether the operation may have changed something. */
export function watchChanges(context: Context): { watched: Context; changed: () => boolean } {
  let changed = false;
  const change = () => {
    changed = true;
  };
  const app: Context['app'] = (id) => {
    change();
    return context.app(id);
  };
  const host = context.host.watched(change);
  return {
    watched: { ...context, db: watchDatabase(context.db, change), host, app },
    changed: () => changed,
  };
}

function watchDatabase(db: D1Database, change: () => void): D1Database {
  const known = new WeakMap<object, Watched>();
  const settle = async <T>(work: Promise<T>, reads: boolean): Promise<T> => {
    if (reads) return work;
    try {
      const result = await work;
      change();
      return result;
    } catch (error) {
      if (!REFUSED.test((error as Error).message)) change();
      throw error;
    }
  };
  const watch = (statement: D1PreparedStatement, reads: boolean): D1PreparedStatement => {
    const proxy = new Proxy(statement, {
      get: (target, name: 'bind' | 'run') =>
        name === 'bind'
          ? (...values: unknown[]) => watch(target.bind(...values), reads)
          : (...options: []) => settle(target[name](...options), reads),
    });
    known.set(proxy, { statement, reads });
    return proxy;
  };
  const batch = <Row>(statements: D1PreparedStatement[]) => {
    const all = statements.map((statement) => known.get(statement)!);
    return settle(
      db.batch<Row>(all.map(({ statement }) => statement)),
      all.every(({ reads }) => reads),
    );
  };
  return { prepare: (sql: string) => watch(db.prepare(sql), READ.test(sql)), batch } as D1Database;
}
