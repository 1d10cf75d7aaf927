// Sends an app's deliveries that arrive within a short time to the host in one call. A burst may have a thousand deliveries.
import type { RequestContext } from '../context.ts';
import type { DeliveryOutcome, HookDelivery } from '../contract/source/connections.ts';
import { shared } from './shared.ts';

/** How long a delivery waits for others, in ms. */
const GATHERING_MS = 50;
/** Maximum deliveries in one call. */
const MOST = 200;

interface Batch {
  deliveries: HookDelivery[];
  /** The result of each delivery, in the same order. */
  outcomes: Promise<DeliveryOutcome[]>;
}

/** Batches that still take deliveries, by app. */
const gathering = new Map<string, Batch>();

/** Has the host record a delivery. @throws {Problem} `source_not_connected`, `host_unavailable` */
export async function record(
  context: RequestContext,
  id: string,
  delivery: HookDelivery,
): Promise<DeliveryOutcome> {
  const batch = gathering.get(id) ?? begin(context, id);
  const place = batch.deliveries.push(delivery) - 1;
  if (batch.deliveries.length >= MOST) gathering.delete(id);
  return (await shared(batch.outcomes))[place]!;
}

function begin({ host, waitUntil }: RequestContext, id: string): Batch {
  const deliveries: HookDelivery[] = [];
  const send = async () => {
    await new Promise((resolve) => setTimeout(resolve, GATHERING_MS));
    if (gathering.get(id) === batch) gathering.delete(id);
    const body = { deliveries };
    return (await host.call('POST /apps/:id/connection/deliveries', { id }, { body })).results;
  };
  const batch: Batch = { deliveries, outcomes: send() };
  gathering.set(id, batch);
  // Other requests wait for the result, so the call continues when this request's client disconnects.
  waitUntil(batch.outcomes.catch(() => {}));
  return batch;
}
