// Context of an operation's implementation.
import { JoinedReads, type Reader } from '../sqlite/control/reads.ts';
import { type Actor, rightsLost } from './access.ts';
import type { AppObject } from './app/app-object.ts';
import type { AuditInterface } from './contract/people/audit.ts';
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
  /** IP address of the client; empty when it is unknown. */
  address: string;
  /** Time of the request, ISO 8601 with milliseconds. */
  at: string;
  /** `rightsLost` at the time of the request. Rights that were lost later must be checked again. */
  losses: number;
  /** Id of the host that becomes the home of an app which this request creates. Left out: `placeApp` chooses a host. */
  newHome?: string | undefined;
  /** Returns the Durable Object of one app. */
  app: (id: string) => DurableObjectStub<AppObject>;
  /** Keeps work running after the response. */
  waitUntil: (work: Promise<unknown>) => void;
}

export interface Context extends RequestContext {
  actor: Actor;
  /** How the request reached Cellar, for the audit log. */
  via: AuditInterface;
  /** Set by Wrangler's calls, which write the audit entry themselves. Then the operations that they run write no entry. */
  isAudited?: true;
  /**
   * Authenticates the caller again.
   * @throws {Problem} `unauthorized` when the key or account was deleted, or the key expired
   */
  whoNow: () => Promise<Actor>;
}

export function createContext(
  env: Env,
  { requestId, address }: Pick<RequestContext, 'requestId' | 'address'>,
  execution: ExecutionContext,
): RequestContext {
  return {
    env,
    db: env.DB,
    reads: new JoinedReads(env.DB),
    host: new HostClient(env),
    requestId,
    address,
    at: new Date().toISOString(),
    losses: rightsLost(),
    app: (id) => env.APP.getByName(id),
    waitUntil: (work) => execution.waitUntil(work),
  };
}
