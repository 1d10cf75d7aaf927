// Context of an operation's implementation.
import { JoinedReads, type Reader } from '../sqlite/control/reads.ts';
import type { Actor } from './access.ts';
import type { AppObject } from './app/app-object.ts';
import type { Env } from './env.ts';
import { HostClient } from './host/host-client.ts';

/** Context of a request before its caller is authenticated. */
export interface RequestContext {
  env: Env;
  db: D1Database;
  /** Reader for queries that may be batched with others of this request. */
  reads: Reader;
  host: HostClient;
  requestId: string;
  /** Time of the request, ISO 8601 with milliseconds. */
  at: string;
  /** The host that an app which is created gets as its home. Left out: the one with most room. */
  newHome?: string | undefined;
  /** Returns the Durable Object of one app. */
  app: (id: string) => DurableObjectStub<AppObject>;
  /** Keeps work running after the response. */
  waitUntil: (work: Promise<unknown>) => void;
}

export interface Context extends RequestContext {
  actor: Actor;
  /** Authenticates the caller again. @throws {Problem} `unauthorized` when the key or the account was deleted meanwhile */
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
