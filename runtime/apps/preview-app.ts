// A preview as an app of this host: it inherits its parent's settings, and has its own address, variables, storage and Linux
// users.
import { createHash } from 'node:crypto';
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';
import { uuidOf } from '../../handlers/contract/id.ts';
import type { PreviewRow } from '../../sqlite/host/previews.ts';

/** Maximum idle time after which a preview's process ends, in ms, even where apps never hibernate. */
const IDLE_MS = 5 * 60_000;
/** Longest DNS label, in characters. */
const LABEL_LENGTH = 63;
/** Longest name made of a branch, in characters. With the longest slug, of 40 characters, it fits in a DNS label. */
const NAME_LENGTH = 21;
/**
 * At least three characters, because two hyphens follow the name in an address. Labels with hyphens as third and fourth
 * character get no certificate.
 */
const NAME_PATTERN = /^(?!.*--)[a-z0-9][a-z0-9-]+[a-z0-9]$/;
/** Reserved for the addresses of uploaded versions, which begin with such a name. */
const VERSION_PATTERN = /^[0-9a-f]{8}$/;

/** Prefix of a preview's `source` when it is the second version of a split. */
const SPLIT = 'split:';

/** Returns the source of a new second version, and the first part of its address. */
export function secondVersionNames(id: string): { source: string; name: string } {
  return {
    source: `${SPLIT}${id}`,
    name: `split-${createHash('sha256').update(id).digest('hex').slice(0, 8)}`,
  };
}

/** Whether a preview is the second version of a split, which gets a share of its app's requests and the app's variables. */
export function isSecondVersion({ source }: PreviewRow): boolean {
  return source.startsWith(SPLIT);
}

/** Returns the id under which logs, errors and requests are recorded: for a second version, its parent's. */
export function reportedApp({ id, preview }: { id: string; preview: PreviewRow | null }): string {
  return preview !== null && isSecondVersion(preview) ? preview.parentId : id;
}

/**
 * Returns the wanted state of a preview of `parent`. A preview never sleeps: when it is idle its process ends, and a request
 * starts a new one.
 */
export function previewOf(parent: WantedApp, row: PreviewRow, baseDomain: string): WantedApp {
  const { id, name, versionId } = row;
  // Except for second versions, maintenance of the parent does not apply: people can look at the next version meanwhile.
  const { maintenance: _, ...shared } = parent;
  const { slug } = parent;
  if (isSecondVersion(row)) return { ...parent, id, slug: `${name}--${slug}`, hostnames: [], replicas: 1 };
  const hostnames = versionId === null ? [] : [`${versionName(versionId)}--${slug}.${baseDomain}`];
  const { vars = {} } = parent.previews ?? {};
  return { ...shared, id, slug: `${name}--${slug}`, hostnames, replicas: 1, vars };
}

/** Returns the idle time after which a preview's process ends, in ms. @param idleMs the idle time of apps, in ms */
export function restsAtLeast(idleMs: number): number {
  return Math.min(idleMs, IDLE_MS);
}

/** Returns the first part of an uploaded version's address, as Wrangler prints it. */
export function versionName(versionId: string): string {
  return uuidOf(versionId).slice(0, 8);
}

/** Whether `name` is valid for a preview of an app with this slug. */
export function isPreviewName(name: string, slug: string): boolean {
  const label = `${name}--${slug}`;
  return NAME_PATTERN.test(name) && !VERSION_PATTERN.test(name) && label.length <= LABEL_LENGTH;
}

/**
 * Returns the name of a branch's preview: the branch in lower case, with hyphens for characters that are no letters or
 * digits. If this is too long, too short, reserved or taken, the name ends with a hash.
 * @param isTaken whether another preview of the app has a name
 */
export function branchName(branch: string, isTaken: (name: string) => boolean): string {
  const plain = branch
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
  if (plain.length <= NAME_LENGTH && isPreviewName(plain, '') && !isTaken(plain)) return plain;
  const hash = createHash('sha256').update(branch).digest('hex').slice(0, 7);
  const beginning = plain.slice(0, NAME_LENGTH - hash.length - 1).replace(/-$/, '');
  return beginning === '' ? `branch-${hash}` : `${beginning}-${hash}`;
}
