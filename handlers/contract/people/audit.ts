// The audit log: who changed what, from where, by which interface.
import * as z from 'zod';
import { id, listOf, moment, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';

/** How a change reached Cellar. `cli`: according to the client's `User-Agent`, which proves nothing. */
export const auditInterface = z.enum(['ui', 'cli', 'rest', 'rpc', 'mcp', 'git', 'wrangler']);
export type AuditInterface = z.output<typeof auditInterface>;

/** The beginning of the command line's `User-Agent`. */
export const CLI_AGENT = 'cellar-cli';

export const AuditEntry = z.strictObject({
  /** The number of the entry. Later entries have higher numbers. */
  id: z.string(),
  at: time,
  /** The id of the account. Null for the runner token, and for a refused sign-in to an unknown account. */
  account: id.nullable(),
  /** The account's name at that time. */
  name: z.string().nullable(),
  /** The id of the API key, if one was used. */
  key: id.nullable(),
  via: auditInterface,
  /** IP address of the client; empty when it is unknown. */
  address: z.string(),
  operation: z.string(),
  /** The app, with its slug at that time. */
  app: z.strictObject({ id: id.nullable(), slug: z.string() }).nullable(),
  /** Names and ids of the changed things, such as a domain. Never contains a value of a variable or a secret. */
  details: z.record(z.string(), z.string()),
  /** `ok`, or the code of the error. */
  outcome: z.string(),
});
export type AuditEntry = z.output<typeof AuditEntry>;

/** Filters of `audit.list`, and of the export of the audit log. */
export const auditFilter = {
  account: reference.optional(),
  app: reference.optional(),
  operation: reference.optional(),
  via: auditInterface.optional(),
  outcome: z.enum(['ok', 'refused']).optional(),
  since: moment.optional(),
  until: moment.optional(),
};

export const audit = [
  operation({
    name: 'audit.list',
    summary: "Lists changes, newest first: the caller's own changes; for admins, all changes",
    method: 'GET',
    path: '/v1/audit',
    needs: 'account',
    input: z.strictObject({ ...auditFilter, ...page }),
    output: listOf(AuditEntry),
  }),
] as const;
