// The deploys of an app, and a single deploy.
import { computed, effect, signal } from '@preact/signals';
import { api, type Result } from '../../api.ts';
import { live, resource } from '../../live.ts';
import { pages, streamed } from '../pages.ts';
import { joinLines, linesOf, parseLog } from './deploy-log.ts';

export type Deploy = Result<'deploys.get'>;

const PAGE = 30;

/** Triggers of deploys that move main to a new commit. */
const MOVES_MAIN: readonly Deploy['trigger'][] = ['push', 'commit', 'import'];

/** Whether a deploy is queued or building. */
export function isUnderWay({ status }: Deploy): boolean {
  return status === 'queued' || status === 'building';
}

/** Returns a deploy's duration in ms, until `now` while it runs; null before its start. */
export function tookMs({ started_at, finished_at }: Deploy, now: number): number | null {
  if (started_at === null) return null;
  const end = finished_at === null ? now : Date.parse(finished_at);
  return Math.max(0, end - Date.parse(started_at));
}

/** Returns the author's name: git's `Ada <ada@example.com>` without the address; `somebody` when no name is left. */
export function authorName(author: string): string {
  return author.replace(/\s*<[^>]*>$/, '') || 'somebody';
}

/** Returns who triggered a deploy, and how. Only rollbacks and redeploys have `requested_by`; older ones lack it. */
export function originOf({
  trigger,
  author,
  requested_by,
  ref,
}: Pick<Deploy, 'trigger' | 'author' | 'requested_by' | 'ref'>): string {
  const name = authorName(author);
  if (requested_by !== null && trigger === 'redeploy' && ref !== 'refs/heads/main')
    return `${requested_by} deployed ${ref.replace(/^refs\/(?:heads|tags)\//, '')}`;
  if (requested_by !== null)
    return `${requested_by} ${trigger === 'rollback' ? 'rolled back' : 'deployed again'}`;
  const words: Record<Deploy['trigger'], string> = {
    push: `${name} pushed`,
    commit: `${name} committed`,
    rollback: `Rollback to a commit of ${name}`,
    redeploy: `Redeploy of a commit of ${name}`,
    import: `Import, last commit of ${name}`,
    upload: `${name} uploaded`,
    promote: `${name} promoted a preview`,
  };
  return words[trigger];
}

/**
 * Returns whether main may have a commit to deploy again: false when all deploys are uploads, which have no ref.
 * @param hasMore whether the app has more deploys than these: they may have a commit
 */
export function hasCommits(deploys: readonly Pick<Deploy, 'ref'>[], hasMore: boolean): boolean {
  return hasMore ? deploys.length > 0 : deploys.some(({ ref }) => ref !== '');
}

/** All deploys of an app, newest first, with live updates. */
export function deploysModel(app: string) {
  const list = pages(
    (cursor, signal) => api('deploys.list', { id: app, limit: PAGE, cursor }, { signal }),
    ({ id }: Deploy) => id,
    { grows: true },
  );
  return streamed(list, mergeDeploys, ({ onItems, onReset }) =>
    live(
      'deploys.stream',
      { id: app },
      { onItems: (items) => onItems(items.filter((item): item is Deploy => 'status' in item)), onReset },
    ),
  );
}

/** Merges streamed deploys into a list, newest first. A received deploy replaces the listed one with its id. */
export function mergeDeploys(list: readonly Deploy[], received: readonly Deploy[]): Deploy[] {
  const byId = new Map([...list, ...received].map((deploy) => [deploy.id, deploy]));
  return [...byId.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
}

/** One deploy and its log, with live updates. */
export function deployModel(app: string, id: string) {
  const deploy = resource((signal) => api('deploys.get', { id: app, deploy_id: id }, { signal }));
  const served = resource((signal) => api('apps.get', { id: app }, { signal }));
  const lines = signal<readonly string[] | null>(null);
  /** Streamed lines that arrived during a read of the log. */
  let early: string[] = [];
  let isReading = true;
  const log = resource(async (signal) => {
    const text = await api('deploys.log', { id: app, deploy_id: id }, { signal });
    lines.value = joinLines(linesOf(text.log), early);
    early = [];
    isReading = false;
    return text.status;
  });
  let stop: (() => void) | null = null;
  const follow = () =>
    live(
      'deploys.stream',
      { id: app },
      {
        onItems(items) {
          for (const item of items) {
            if ('status' in item) {
              if (item.id === id) deploy.set(item);
            } else if (item.deploy_id === id) {
              if (isReading) early.push(...item.lines);
              else lines.value = [...(lines.peek() ?? []), ...item.lines];
            }
          }
        },
        onOpen: readAgain,
        onReset: readAgain,
      },
    );
  /** Reads the deploy and its log again, because a new stream sends no events from before it was opened. */
  const readAgain = () => {
    isReading = true;
    void deploy.refresh();
    void log.refresh();
  };
  const end = effect(() => {
    const found = deploy.data.value;
    if (found !== null && isUnderWay(found)) stop ??= follow();
    else if (found !== null && stop !== null) {
      // The deploy has ended: reads the end of its log, and which deploy is live now.
      stop();
      stop = null;
      void log.refresh();
      void served.refresh();
    }
  });
  const parsed = computed(() => (lines.value === null ? null : parseLog(lines.value)));
  /** The commit of the newest deploy that moved main; null while it is unknown. */
  const tip = signal<string | null>(null);
  const compared = resource(async (signal) => {
    const { items } = await api('deploys.list', { id: app, limit: 200 }, { signal });
    tip.value = items.find(({ trigger }) => MOVES_MAIN.includes(trigger))?.sha ?? null;
    return compareDeploy(app, id, items, signal);
  });
  return {
    deploy,
    served,
    log,
    parsed,
    compared,
    tip,
    async cancel() {
      deploy.set(await api('deploys.cancel', { id: app, deploy_id: id }));
    },
    close() {
      end();
      stop?.();
      for (const each of [deploy, served, log, compared]) each.close();
    },
  };
}

/** Compares a deploy with the newest earlier one of another commit that went live; null without one. */
async function compareDeploy(app: string, id: string, items: readonly Deploy[], signal: AbortSignal) {
  const at = items.findIndex((deploy) => deploy.id === id);
  const own = items[at];
  const before = items
    .slice(at + 1)
    .find(({ status, sha }) => (status === 'live' || status === 'replaced') && sha !== own?.sha);
  // A deploy of an upload has no commit to compare.
  if (!own?.sha || !before?.sha) return null;
  return { before, diff: await api('source.diff', { id: app, from: before.sha, to: own.sha }, { signal }) };
}
