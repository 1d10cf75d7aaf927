// The vector indexes of apps. These operations also work while the app is stopped.
import type { Context } from '../../context.ts';
import type { Result } from '../../contract/index.ts';
import type { Service } from '../types.ts';

const JSON_TYPE = 'application/json';

const read: Service<'storage.vectorize.read'> = (context, { id, index, call, arguments: given = {} }) =>
  context.host.call(
    'POST /apps/:id/vectors/read',
    { id },
    { query: { index, call }, body: new Blob([JSON.stringify(given)]).stream(), contentType: JSON_TYPE },
  );

const write: Service<'storage.vectorize.write'> = (context, { id, arguments: given = {}, ...asked }) =>
  writeBody(context, { id, ...asked }, new Blob([JSON.stringify(given)]).stream(), JSON_TYPE);

/** Streams the body of a write to the host, without buffering. The caller must have authorized the request. */
export async function writeBody(
  context: Context,
  { id, index, call }: { id: string; index: string; call: string },
  body: ReadableStream<Uint8Array>,
  contentType: string,
): Promise<Result<'storage.vectorize.write'>> {
  const given = { query: { index, call }, body, contentType };
  return context.host.call('POST /apps/:id/vectors/write', { id }, given);
}

export const vectorServices = { 'storage.vectorize.read': read, 'storage.vectorize.write': write };
