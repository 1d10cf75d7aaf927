// Deploys a built folder as a static site, in three calls: the list of its files, the files that Cellar lacks, the deploy.
import * as z from 'zod';
import { Deploy } from '../apps/deploys.ts';
import { reference } from '../fields.ts';
import { operation } from '../operation.ts';
import { FOLDER_BODY_BYTES, FOLDER_MANIFEST_BYTES } from '../sizes.ts';
import { FILE_HASH_DIGITS, FOLDER_FILE_BYTES } from './folder-files.ts';

const hash = z
  .string()
  .regex(/^[0-9a-f]{32}$/, `must be the first ${FILE_HASH_DIGITS} hexadecimal digits of the SHA-256`);
const upload = z
  .string()
  .regex(/^[a-z2-7]{52}$/, 'must be the upload that deploys.begin_upload has returned');
const errors = ['rate_limited', 'insufficient_storage', 'host_unavailable'] as const;

export const folders = [
  operation({
    name: 'deploys.begin_upload',
    summary:
      'Begins to deploy a built folder as a static site, and lists the files that Cellar does not have',
    method: 'POST',
    audited: false,
    needs: 'push',
    input: z.strictObject({
      id: reference,
      manifest: z.record(
        z.string().max(1024),
        z.strictObject({ hash, size: z.int().min(0).max(FOLDER_FILE_BYTES) }),
      ),
    }),
    output: z.strictObject({
      upload: z.string(),
      /** Hashes of the files to send: a list for each call of `deploys.upload_files`. */
      missing: z.array(z.array(z.string())),
    }),
    bodyLimit: FOLDER_MANIFEST_BYTES,
    errors,
  }),
  operation({
    name: 'deploys.upload_files',
    summary: 'Sends files of an upload',
    method: 'POST',
    audited: false,
    needs: 'push',
    // `contents` is base64. The schema does not check this, because a check would take half a second for a large file. The
    // hash of each file is checked later.
    input: z.strictObject({ id: reference, upload, contents: z.record(z.string().max(64), z.string()) }),
    output: z.strictObject({
      /** Whether Cellar now has all files. */
      complete: z.boolean(),
    }),
    bodyLimit: FOLDER_BODY_BYTES,
    errors,
  }),
  operation({
    name: 'deploys.finish_upload',
    summary: 'Deploys the files of an upload as a static site; wakes a sleeping app first',
    method: 'POST',
    needs: 'push',
    input: z.strictObject({
      id: reference,
      upload,
      message: z.string().max(200).default('Upload of a folder'),
    }),
    output: Deploy,
    status: 202,
    errors: [...errors, 'transition_conflict'],
  }),
] as const;
