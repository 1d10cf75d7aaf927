// The route that uploads the bytes of an object, whole or as a part of a multipart upload.
import { audited, targetOf } from '../audit.ts';
import type { Context } from '../context.ts';
import { operationsByName } from '../contract/index.ts';
import { objectBytes } from '../contract/storage/buckets.ts';
import { putObjectBody, putPartBody } from '../services/storage/buckets.ts';
import { admit } from './invoke.ts';
import { invalidInput } from './validate.ts';

export const OBJECT_BYTES = '/v1/apps/:id/storage/r2/:bucket/raw';

/**
 * Answers `PUT` on `OBJECT_BYTES`. Authorizes the caller before it reads the body.
 * @throws {Problem} the errors of `putObjectBody` and `putPartBody`; `forbidden`; `app_not_found`
 */
export async function putObject(
  request: Request,
  context: Context,
  input: Record<string, unknown>,
): Promise<object> {
  const operation = operationsByName.get('storage.r2.put')!;
  const { checked, requireApp } = await admit(context, operation, objectBytes, input);
  await requireApp();
  const { upload_id: upload, part, ...place } = checked;
  if (upload === undefined && part === undefined)
    return audited(context, context, targetOf(operation, checked), () =>
      putObjectBody(context, place, request),
    );
  if (upload === undefined || part === undefined) {
    const path = upload === undefined ? 'upload_id' : 'part';
    throw invalidInput([{ path, message: 'is required for a part of an upload' }]);
  }
  return putPartBody(context, place, { upload, part }, request);
}
