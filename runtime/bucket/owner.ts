// Which Cellar a bucket belongs to. Two would overwrite each other's apps, and in another bucket than before, apps would find
// nothing.
import { reason } from '../log.ts';
import type { S3Place } from './place.ts';
import { UnusableStore } from './probe.ts';
import { S3Store } from './s3-store.ts';
import { MissingObject } from './store.ts';

const OWNER = 'cellar.json';
const CHECK = 'it is of this Cellar';

/** This Cellar, as the bucket knows it. */
export interface BucketOwner {
  /** This Cellar's id. */
  cellar: string;
  /** Whether it has apps that keep their data in its bucket. */
  hasApps: boolean;
}

/** Returns the id of the Cellar that has a bucket; null for an unused one. @throws {UnusableStore} when it does not answer */
export async function readOwner(place: S3Place): Promise<string | null> {
  try {
    const found = await new S3Store(place).read(OWNER);
    return (JSON.parse(found.toString('utf8')) as { cellar: string }).cellar;
  } catch (error) {
    if (error instanceof MissingObject) return null;
    throw new UnusableStore(CHECK, reason(error), true);
  }
}

/**
 * Claims an unused bucket for this Cellar.
 * @throws {UnusableStore} when another Cellar has it, or when this one has its apps' data elsewhere
 */
export async function claimBucket(place: S3Place, { cellar, hasApps }: BucketOwner): Promise<void> {
  const found = await readOwner(place);
  if (found === null && hasApps)
    throw new UnusableStore(
      CHECK,
      `apps of this Cellar keep their data in a bucket, and this is not the one (it has no ${place.prefix}${OWNER}): set RUNNER_BUCKET as it was`,
    );
  if (found === null)
    await new S3Store(place)
      .write(OWNER, Buffer.from(`${JSON.stringify({ cellar })}\n`))
      .catch((error: unknown) => {
        throw new UnusableStore(CHECK, reason(error), true);
      });
  const owner = found ?? (await readOwner(place));
  if (owner !== cellar)
    throw new UnusableStore(
      CHECK,
      `it is of another Cellar (${owner}, this one is ${cellar}): give this one a prefix of its own in RUNNER_BUCKET`,
    );
}
