// The host's routes to previews.
import type { HostCall } from '../../../handlers/contract/host/host-routes.ts';
import type { Deploy } from '../../builds/deploy/deploy.ts';
import type { DiskWatch } from '../../disk/disk-watch.ts';
import type { Previews } from '../../previews/previews.ts';
import type { Splits } from '../../previews/splits.ts';
import { requireRoom } from '../../refusal.ts';
import type { Uploads } from '../../uploads/uploads.ts';
import { type HostRoutes, readJson } from '../host-call.ts';
import type { Outbox } from '../outbox.ts';

/** Longest wait of a call for the end of a deploy, in ms. It may be queued behind others. */
const DEPLOY_MS = 10 * 60_000;
const FLUSH_MS = 1_000;

export type PreviewCall = Extract<
  HostCall,
  `${string}/previews${string}` | `${string}/preview` | `${string}/split`
>;

export interface PreviewRouteOptions {
  disk: DiskWatch;
  outbox: Outbox;
  previews: Previews;
  splits: Splits;
  uploads: Uploads;
}

export function previewRoutes({
  disk,
  outbox,
  previews,
  splits,
  uploads,
}: PreviewRouteOptions): Pick<HostRoutes, PreviewCall> {
  return {
    'GET /apps/:id/previews': ({ words }) => previews.list(words[0]!),
    'GET /apps/:id/previews/:preview/log': ({ words }) => {
      const { fact, text } = previews.log(words[0]!, words[1]!);
      return { deploy_id: fact.id, status: fact.status, log: text };
    },
    'DELETE /apps/:id/previews/:preview': async ({ words }) => {
      await previews.delete(words[0]!, words[1]!);
      return null;
    },
    'POST /apps/:id/previews/:preview/promote': async ({ request, words }) => {
      requireRoom(disk);
      const { author } = await readJson<'POST /apps/:id/previews/:preview/promote'>(request);
      const deploy = previews.promote(words[0]!, words[1]!, author);
      void dropWhenLive(deploy);
      await outbox.flushed(FLUSH_MS);
      return deploy.fact;
    },
    'GET /apps/:id/split': ({ words }) => splits.get(words[0]!),
    'PUT /apps/:id/split': async ({ request, words }) => {
      const appId = words[0]!;
      const { release, percentage: share, ...by } = await readJson<'PUT /apps/:id/split'>(request);
      requireRoom(disk);
      const set = { share, ...by };
      if ('deploy' in release) return splits.set(appId, { deployId: release.deploy }, set);
      return uploads.deploying(appId, release.version, release.owner, (upload, directory) =>
        splits.set(appId, { upload, directory }, set),
      );
    },
    'DELETE /apps/:id/split': async ({ words }) => {
      await splits.end(words[0]!);
      return null;
    },
    'POST /apps/:id/versions/:deploy/preview': async ({ request, words }) => {
      requireRoom(disk);
      const [appId, id] = words as [string, string];
      const { owner } = await readJson<'POST /apps/:id/versions/:deploy/preview'>(request);
      return uploads.deploying(appId, id, owner, async (version, directory) => {
        const deploy = await previews.upload(appId, version, directory).catch(async (error: unknown) => {
          await uploads.drop(id);
          throw error;
        });
        await deploy.untilEnded(AbortSignal.timeout(DEPLOY_MS));
        await previews.uploaded(appId, version, deploy);
        // The response reports that the version does not start, so it is not kept.
        if (deploy.fact.status === 'failed') await uploads.drop(id);
        return deploy.fact;
      });
    },
  };

  /** Removes a promoted version from the uploads once it is live. No call waits for this, so it has no timeout. Never rejects. */
  async function dropWhenLive(deploy: Deploy): Promise<void> {
    await deploy.untilEnded();
    if (deploy.fact.status === 'live') await uploads.drop(deploy.fact.id);
  }
}
