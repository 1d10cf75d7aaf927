// Bindings of a Wrangler configuration to what lies outside of the app and of its storage, which Cellar reaches for it.
import type { Outward } from './release.ts';
import type { WranglerConfig } from './wrangler-config.ts';

/** The bindings, whose shapes wrangler has checked. */
export function outwardBindings({
  ai,
  hyperdrive,
  analytics_engine_datasets: datasets,
}: WranglerConfig): Outward[] {
  return [
    ...(ai === undefined ? [] : [{ type: 'ai' as const, binding: ai.binding }]),
    ...(hyperdrive ?? []).map(({ binding, id }) => ({ type: 'hyperdrive' as const, binding, id })),
    ...(datasets ?? []).map(({ binding, dataset = binding }) => ({
      type: 'analytics_engine' as const,
      binding,
      dataset,
    })),
  ];
}
