// Opens live streams of apps.

import { unwrap } from '../../app/outcome.ts';
import type { StreamName } from '../../app/streams.ts';
import type { Context } from '../../context.ts';
import type { Service, Transport } from '../types.ts';

/** Opens a stream of an app's Durable Object as server-sent events. @throws {Problem} `rate_limited` */
async function openStream(
  context: Context,
  { id, last_event_id }: { id: string; last_event_id?: string | undefined },
  stream: StreamName,
  transport: Transport,
): Promise<ReadableStream<Uint8Array>> {
  const outcome = await context.app(id).subscribe({
    stream,
    lastEventId: last_event_id === undefined ? undefined : Number(last_event_id),
    rpcMethod: transport === 'rpc' ? `${stream}.stream` : null,
  });
  return unwrap(outcome);
}

const deploys: Service<'deploys.stream'> = (context, input, transport) =>
  openStream(context, input, 'deploys', transport);

const events: Service<'events.stream'> = (context, input, transport) =>
  openStream(context, input, 'events', transport);

export const streamServices = { 'deploys.stream': deploys, 'events.stream': events };
