// What an operation's implementation works with.
import { JoinedReads, type Reader } from '../sqlite/control/reads.ts';
import type { Actor } from './access.ts';
import type { AppObject } from './app/app-object.ts';
import type { Env } from './env.ts';
import { HostClient } from './host/host-client.ts';

/** What a request has before it is known who sent it. */
export interface RequestContext {
  env: Env;
  db: D1Database;
  /** The database for reads that may be joined with others of this request. */
  reads: Reader;
  host: HostClient;
  requestId: string;
  /** Time of the request, ISO 8601 with milliseconds. */
  at: string;
  /** The object of one app. */
  app: (id: string) => DurableObjectStub<AppObject>;
  /** Lets work go on after the answer. */
  waitUntil: (work: Promise<unknown>) => void;
}

export interface Context extends RequestContext {
  /** Who calls. */
  actor: Actor;
  /** Asks anew who calls. @throws {Problem} `unauthorized` when the key or the account has gone meanwhile */
  whoNow: () => Promise<Actor>;
}

export function createContext(env: Env, requestId: string, execution: ExecutionContext): RequestContext {
  return {
    env,
    db: env.DB,
    reads: new JoinedReads(env.DB),
    host: new HostClient(env),
    requestId,
    at: new Date().toISOString(),
    app: (id) => env.APP.getByName(id),
    waitUntil: (work) => execution.waitUntil(work),
  };
}
