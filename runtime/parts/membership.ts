// Makes the part that reports this host, as one of several, to the control plane.
import { hostname } from 'node:os';
import type { HostReportAnswer } from '../../handlers/contract/host/hosts.ts';
import type { Apps } from '../apps/apps.ts';
import { CONTROL, HOSTS_OBJECT } from '../control/config.ts';
import type { Control } from '../control/control-plane.ts';
import { hasLivingOwner } from '../hosts/living-owner.ts';
import { Load } from '../hosts/load.ts';
import { Membership } from '../hosts/membership.ts';
import type { MovedAway } from '../hosts/moved-away.ts';
import { VERSION } from '../variables.ts';
import type { Base } from './base.ts';

interface Around {
  apps: Apps;
  control: Control;
  movedAway: MovedAway | null;
  /** Returns the hosts that do not answer this one, and for how long. */
  unanswered: () => { id: string; ms: number }[];
  /** Makes the control plane reconcile its state with this host's. Must not reject. */
  reconcile: () => Promise<void>;
}

/** Makes this part; returns null when this is the only host. */
export function makeMembership(
  { config, store, disk, bucket, homes, gate }: Base,
  { apps, control, movedAway, unanswered, reconcile }: Around,
): Membership | null {
  const address = config.RUNNER_ADDRESS;
  if (address === null || homes === null) return null;
  const load = new Load(disk, () => apps.counts);
  return new Membership({
    host: {
      id: homes.self,
      name: hostname(),
      address: `${address.host}:${address.port}`,
      version: VERSION,
      started_at: new Date().toISOString(),
      adopts: !store.records.hasJoined(),
    },
    homes,
    gate,
    look: () => ({
      load: load.read(),
      clock_ahead_ms: bucket?.clockMs ?? null,
      unanswered: unanswered(),
    }),
    send: async (report, deadlineMs) =>
      (await control.call('/internal/hosts/report', report, deadlineMs)) as HostReportAnswer,
    isCounted: () => hasLivingOwner(bucket!.cluster(CONTROL, () => {}).store, HOSTS_OBJECT, address.host),
    onAnswer: ({ routes }) => void movedAway?.look(routes),
    settle: async () => {
      await movedAway?.settle();
      await reconcile();
    },
    onCutOff: () => apps.cutOff(),
    onBack: () => apps.bucketIsBack(),
  });
}
