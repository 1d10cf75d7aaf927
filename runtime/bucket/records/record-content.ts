// The content of a record in the bucket. Its ids become paths and keys of the bucket, so they are checked before use.
import * as z from 'zod';
import { replicas } from '../../../handlers/contract/apps/apps.ts';
import { pathFault } from '../../../handlers/contract/apps/path.ts';
import { pullState } from '../../../handlers/contract/source/pulls.ts';
import type { AppRecord, DeletedApp } from '../../../sqlite/host/app-records.ts';
import { reason } from '../../log.ts';

const FORMAT = 1;
const id = z.string().regex(/^[0-9a-z]{16}$/, 'must be an id');
const hostId = z.string().regex(/^[\w-]{1,64}$/, 'must be the id of a host');
const label = z.string().regex(/^[a-z0-9-]{1,64}$/, 'must be a part of a host name');
const storageId = z.string().regex(/^[\w-]{1,128}$/, 'must be an id of storage');
/** Empty for an upload. */
const sha = z.string().regex(/^[0-9a-f]{0,64}$/, 'must be a commit');
const time = z.string().max(40).nullable();
const limit = z.number().nullable();
/** `.` is the base folder. */
const folder = z
  .string()
  .refine((path) => path === '.' || pathFault(path) === null, 'must be a folder of the repository')
  .nullable();
const command = z.string().nullable();
const classes = z.record(z.string(), z.looseObject({ id: storageId })).optional();
const ids = z.record(z.string(), storageId).optional();

const wanted = z.looseObject({
  id,
  slug: label,
  owner: z.string().max(64).optional(),
  generation: z.int().min(0),
  desired_state: z.enum(['running', 'stopped']),
  hostnames: z.array(z.string().regex(/^[\w.-]{1,253}$/, 'must be a host name')),
  mail: z.array(z.string().max(254)).optional(),
  env: z.record(z.string(), z.string()),
  vars: z.record(z.string(), z.unknown()).optional(),
  builds: z
    .looseObject({
      root_directory: folder,
      output_directory: folder,
      install_command: command,
      build_command: command,
      release_command: command.optional(),
    })
    .optional(),
  limits: z.looseObject({ clientRpm: limit, appRpm: limit }),
  previews: z
    .looseObject({
      branches: z.boolean(),
      storage: z.enum(['empty', 'copy']),
      vars: z.record(z.string(), z.unknown()).optional(),
    })
    .optional(),
  storage: z.literal('bucket'),
  maintenance: z.looseObject({ html: z.string().nullable() }).optional(),
  home: hostId.optional(),
  replicas: replicas.optional(),
});

const appRecord = z.looseObject({
  wanted,
  preview: z
    .looseObject({
      id,
      parentId: id,
      name: label,
      source: z.string(),
      versionId: z.string().nullable(),
      createdAt: z.number(),
      expiresAt: z.number(),
      // Left out by an older Cellar.
      share: z.number().min(0).max(100).nullable().optional(),
    })
    .nullable(),
  previews: z.array(id).optional(),
  liveDeployId: id.nullable(),
  deployedAt: time,
  consumes: z.array(z.string()),
  storageNames: z.looseObject({
    appliedTags: z.array(z.string()).optional(),
    classes,
    formerClasses: classes,
    databases: ids,
    namespaces: ids,
    buckets: ids,
    deletedClasses: z.record(storageId, z.string()).optional(),
  }),
  asleepSince: time,
  wokeAt: time,
  outbound: z.string().nullish(),
  secrets: z.array(
    z.looseObject({ name: z.string(), sealed: z.base64(), createdAt: z.string(), updatedAt: z.string() }),
  ),
  deploys: z.array(
    z.looseObject({
      fact: z.looseObject({ id, app_id: id, sha }),
      releaseOf: id.nullable(),
    }),
  ),
  alerts: z.array(
    z.looseObject({
      id: z.string(),
      alert: z.looseObject({}),
      deliveries: z.array(z.looseObject({ id: z.string(), body: z.string(), nextAt: z.int() })).optional(),
    }),
  ),
  connection: z.looseObject({ source: z.looseObject({}), sealed: z.base64() }).nullish(),
  pulls: z
    .array(
      z.looseObject({
        pull: z.looseObject({
          number: z.int().positive(),
          sha,
          approved_sha: sha.nullable(),
          state: pullState,
        }),
        dueAt: z.int().nullable(),
      }),
    )
    .optional(),
});

const deletedApp = z.looseObject({ deletedApp: id, removeAt: z.iso.datetime() });

/**
 * Parses and checks a record.
 * @param appId the id in the name of the record
 * @throws {Error} when it is damaged, or of a newer Cellar
 */
export function readRecord(bytes: Buffer, appId: string): AppRecord | DeletedApp {
  const said = JSON.parse(bytes.toString('utf8'));
  if (said?.format !== FORMAT)
    throw new Error(`its format is ${said?.format}, and this Cellar knows ${FORMAT}: start a newer one`);
  const schema = 'deletedApp' in said ? deletedApp : appRecord;
  const parsed = schema.safeParse(said);
  const [issue] = parsed.error?.issues ?? [];
  if (issue !== undefined) throw new Error(`${issue.path.join('.')}: ${issue.message}`);
  const record = said as AppRecord | DeletedApp;
  const own = 'deletedApp' in record ? record.deletedApp : record.wanted.id;
  const isOther = own !== appId || ('preview' in record && (record.preview?.id ?? appId) !== appId);
  if (isOther) throw new Error('it has the id of another app in it');
  return record;
}

/** Returns the error for a record that cannot be used. @param name of the record's object */
export function damagedRecord(name: string, error: unknown): Error {
  return new Error(
    `${name} in the bucket cannot be used: ${reason(error)}. Repair it, or remove it to leave that app out`,
  );
}
