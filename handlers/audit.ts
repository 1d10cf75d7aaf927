// Writes the audit log.
import { insertAuditEntry, insertRefusedSignIn } from '../sqlite/control/people/audit.ts';
import { type Actor, callerOf, keyOf } from './access.ts';
import type { RequestContext } from './context.ts';
import type { Operation } from './contract/operation.ts';
import type { AuditInterface } from './contract/people/audit.ts';
import type { SignInCalls } from './contract/people/sign-in.ts';
import { cutText } from './contract/text.ts';

/** Input fields that are written to the audit log, because they name the changed things. Other fields may contain secrets. */
const NAMING = [
  'account',
  'at',
  'binding',
  'branch',
  'bucket',
  'class_name',
  'cron',
  'database',
  'database_id',
  'deploy_id',
  'dispatch',
  'email',
  'enabled',
  'hostname',
  'instance',
  'invite',
  'name',
  'namespace_id',
  'preview',
  'ref',
  'role',
  'scope',
  'script',
  'snapshot',
  'storage',
  'to',
  'workflow',
] as const;
const DETAIL_CHARACTERS = 200;
const NO_APP = { id: null, slug: null };

/** Who makes a change, and through which interface. */
export interface Author {
  actor: Actor;
  via: AuditInterface;
}

export interface Target {
  operation: string;
  app: { id: string | null; slug: string | null };
  details: Record<string, string>;
}

/** Returns whether calls of an operation are written to the audit log: all but reads and operations with `audited: false`. */
export function isAudited({ method, audited }: Pick<Operation, 'method' | 'audited'>): boolean {
  return method !== 'GET' && audited !== false;
}

/** Returns the app and the details that the audit log shows for a call. @param input the validated input */
export function targetOf({ name, needs }: Operation, input: object): Target {
  const given = input as Record<string, unknown>;
  const isOfApp = needs !== 'account' && needs !== 'runner';
  const text = (field: string) => (typeof given[field] === 'string' ? given[field] : null);
  const details = detailsOf(given);
  if (isOfApp) return { operation: name, app: { id: text('id'), slug: text('slug') }, details };
  const app = ['apps.create', 'apps.undelete'].includes(name)
    ? { id: null, slug: text('slug') ?? text('app') }
    : NO_APP;
  const id = text('id');
  return { operation: name, app, details: id === null ? details : { id, ...details } };
}

/** Returns the fields of an input that are in `NAMING`, as texts that are cut to `DETAIL_CHARACTERS`. */
export function detailsOf(input: Record<string, unknown>): Record<string, string> {
  const named = NAMING.flatMap((field): [string, string][] => {
    const value = input[field];
    if (typeof value === 'boolean') return [[field, String(value)]];
    return typeof value === 'string' ? [[field, cutText(value, DETAIL_CHARACTERS, '…')]] : [];
  });
  return Object.fromEntries(named);
}

/**
 * Runs `work`. Writes an audit entry before it returns the result or throws the error of `work`. Does both even if the
 * client disconnects: otherwise a caller could hide a change by closing the connection.
 */
export function audited<Result>(
  context: RequestContext,
  author: Author,
  target: Target,
  work: () => Promise<Result>,
): Promise<Result> {
  const ending = workAndRecord(context, author, target, work);
  context.waitUntil(ending.catch(() => {}));
  return ending;
}

async function workAndRecord<Result>(
  context: RequestContext,
  author: Author,
  target: Target,
  work: () => Promise<Result>,
): Promise<Result> {
  let result: Result;
  try {
    result = await work();
  } catch (error) {
    await record(context, author, target, outcomeOf(error));
    throw error;
  }
  await record(context, author, target, 'ok');
  return result;
}

/** Returns the code of a `Problem` or `CloudflareError`; `internal_error` for other errors. */
function outcomeOf(error: unknown): string {
  return String((error as { code?: string | number }).code ?? 'internal_error');
}

/** Adds an entry. Never rejects, because the logged operation has already run. */
export async function record(
  { db, address, requestId }: RequestContext,
  { actor, via }: Author,
  { operation, app, details }: Target,
  outcome: string,
): Promise<void> {
  try {
    await insertAuditEntry(db, {
      at: new Date().toISOString(),
      actor: callerOf(actor),
      key_id: keyOf(actor)?.id ?? null,
      via,
      address,
      operation,
      app_id: app.id,
      app_slug: app.slug,
      details: JSON.stringify(details),
      outcome,
    });
  } catch (error) {
    console.error(`request ${requestId}: ${operation} could not be written to the audit log: ${error}`);
  }
}

/** Adds an entry about a sign-in that was refused. Never rejects. */
export async function recordRefusedSignIn(
  { db, at, requestId }: RequestContext,
  { account, email, by, address, code }: SignInCalls['refused']['input'],
): Promise<void> {
  const details = JSON.stringify({ by });
  try {
    await insertRefusedSignIn(db, { at, account, email, address, details, outcome: code });
  } catch (error) {
    console.error(`request ${requestId}: a refused sign-in could not be written to the audit log: ${error}`);
  }
}
