// Opens live streams of apps.

import type { StreamName } from '../../app/streams.ts';
import type { Context } from '../../context.ts';
import { requireApp, unwrap } from '../apps/apps.ts';
import type { Transport } from '../types.ts';

/** Opens a stream of an app's Durable Object as server-sent events. @throws {Problem} `app_not_found`, `rate_limited` */
export async function openStream(
  context: Context,
  { id, last_event_id }: { id: string; last_event_id?: string | undefined },
  stream: StreamName,
  transport: Transport,
): Promise<ReadableStream<Uint8Array>> {
  await requireApp(context, id);
  const outcome = await context.app(id).subscribe({
    stream,
    lastEventId: last_event_id === undefined ? undefined : Number(last_event_id),
    rpcMethod: transport === 'rpc' ? `${stream}.stream` : null,
  });
  return unwrap(outcome);
}
