// HOST calls by which an app changes its home, the host that runs it.
import type { Apps } from '../../apps/apps.ts';
import { type HostRoutes, readJson } from '../host-call.ts';

export type HomeCall = 'POST /apps/:id/prepare' | 'POST /apps/:id/hand-over';

export function homeRoutes({ apps }: { apps: Apps }): Pick<HostRoutes, HomeCall> {
  return {
    'POST /apps/:id/prepare': async ({ words }) => {
      await apps.arrivals.prepare(words[0]!);
      return null;
    },
    'POST /apps/:id/hand-over': async ({ request, words }) => {
      const { to, generation } = await readJson<'POST /apps/:id/hand-over'>(request);
      await apps.departures.handOver(words[0]!, to, generation);
      return null;
    },
  };
}
