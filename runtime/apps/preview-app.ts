// A preview as an app of this host: it has all that its parent has, but an address, storage and users of its own.
import { createHash } from 'node:crypto';
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';
import { uuidOf } from '../../handlers/contract/id.ts';
import type { PreviewRow } from '../../sqlite/host/previews.ts';

/** Quiet time after which a preview's process ends, in ms, also where those of apps stay for ever. */
const IDLE_MS = 5 * 60_000;
/** The most characters that a DNS label may have. */
const LABEL_LENGTH = 63;
/** The most characters of a name that is made of a branch: with the longest slug, of 40 characters, it still is a DNS label. */
const NAME_LENGTH = 21;
/** No certificate is given for a label whose third and fourth characters are hyphens, so a name has at least three characters. */
const NAME_PATTERN = /^(?!.*--)[a-z0-9][a-z0-9-]+[a-z0-9]$/;
/** The address of an uploaded version begins with such a name, so no preview may have one. */
const VERSION_PATTERN = /^[0-9a-f]{8}$/;

/** The wanted state of a preview of `parent`. A preview is never asleep: when nobody asks for it its process ends, and a request starts another. */
export function previewOf(
  parent: WantedApp,
  { id, name, versionId }: PreviewRow,
  baseDomain: string,
): WantedApp {
  const { slug } = parent;
  const hostnames = versionId === null ? [] : [`${versionName(versionId)}--${slug}.${baseDomain}`];
  return { ...parent, id, slug: `${name}--${slug}`, asleep: false, hostnames };
}

/** @param idleMs quiet time after which an app's process ends, in ms @returns that of a preview */
export function restsAtLeast(idleMs: number): number {
  return Math.min(idleMs, IDLE_MS);
}

/** What the address of an uploaded version begins with, as Wrangler prints it. */
export function versionName(versionId: string): string {
  return uuidOf(versionId).slice(0, 8);
}

/** Whether something can be the name of a preview of an app with this slug. */
export function isPreviewName(name: string, slug: string): boolean {
  const label = `${name}--${slug}`;
  return NAME_PATTERN.test(name) && !VERSION_PATTERN.test(name) && label.length <= LABEL_LENGTH;
}

/**
 * The name of a branch's preview: its letters and digits, and a hash where those are too many, too few, or taken.
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
