// The route whose body is the bytes of an object: of a whole one, or of a part of one that is uploaded in parts.
import { authorize } from '../access.ts';
import type { Context } from '../context.ts';
import { operationsByName } from '../contract/index.ts';
import { objectBytes } from '../contract/storage/buckets.ts';
import { putObjectBody, putPartBody } from '../services/storage/buckets.ts';
import { withAppId } from './invoke.ts';
import { invalidInput, validate } from './validate.ts';

/** Its path, beside that by which an object's bytes are read. */
export const OBJECT_BYTES = '/v1/apps/:id/storage/r2/:bucket/raw';

/**
 * Answers `PUT` there. The body is read by nobody before it is known that the caller may write.
 * @throws {Problem} as the services do; `forbidden`; `app_not_found`
 */
export async function putObject(
  request: Request,
  context: Context,
  input: Record<string, unknown>,
): Promise<object> {
  const operation = operationsByName.get('storage.r2.put')!;
  const checked = await withAppId(context, operation, validate(objectBytes, input));
  await authorize(context, operation, checked);
  const { upload_id: upload, part, ...place } = checked;
  if (upload === undefined && part === undefined) return putObjectBody(context, place, request);
  if (upload === undefined || part === undefined) {
    const path = upload === undefined ? 'upload_id' : 'part';
    throw invalidInput([{ path, message: 'is needed for a part of an upload' }]);
  }
  return putPartBody(context, place, { upload, part }, request);
}
