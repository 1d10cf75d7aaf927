// Bindings of a Wrangler configuration to services outside of the app and its storage. Cellar calls these services for the
// app.

import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import type { Outward } from '../release.ts';
import { missingBindings } from './missing-bindings.ts';

/**
 * Returns the bindings to services outside of the app, and an object for each binding that Cellar does not support.
 * Wrangler has checked the fields of the bindings, except the lists of e-mail addresses.
 * @throws {BuildFailure} naming the invalid list
 */
export function outwardBindings(config: WranglerConfig): Outward[] {
  const { ai, images, browser, hyperdrive, analytics_engine_datasets: datasets, send_email: mail } = config;
  return [
    ...(ai === undefined ? [] : [{ type: 'ai' as const, binding: ai.binding }]),
    ...(images === undefined ? [] : [{ type: 'images' as const, binding: images.binding }]),
    ...(browser === undefined ? [] : [{ type: 'browser' as const, binding: browser.binding }]),
    ...(hyperdrive ?? []).map(({ binding, id }) => ({ type: 'hyperdrive' as const, binding, id })),
    ...(datasets ?? []).map(({ binding, dataset = binding }) => ({
      type: 'analytics_engine' as const,
      binding,
      dataset,
    })),
    ...(mail ?? []).map(({ name: binding, destination_address, ...lists }) => ({
      type: 'send_email' as const,
      binding,
      ...(destination_address !== undefined && { destination_address }),
      ...addresses(binding, 'allowed_destination_addresses', lists.allowed_destination_addresses),
      ...addresses(binding, 'allowed_sender_addresses', lists.allowed_sender_addresses),
    })),
    ...missingBindings(config),
  ];
}

function addresses<Key extends string>(binding: string, key: Key, given: unknown): { [K in Key]?: string[] } {
  if (given === undefined) return {};
  if (!Array.isArray(given) || !given.every((each) => typeof each === 'string'))
    throw new BuildFailure(`the send_email binding ${binding}: "${key}" must be a list of e-mail addresses`);
  return { [key]: given } as { [K in Key]?: string[] };
}
