// Which Cellar a bucket belongs to. Two would overwrite each other's apps, and in another bucket than before, apps would find
// nothing.
import { reason } from '../log.ts';
import { bucketUrl, s3Client } from './client.ts';
import type { S3Place } from './place.ts';
import { UnusableStore } from './probe.ts';
import { S3Store } from './s3-store.ts';
import { MissingObject } from './store.ts';

const OWNER = 'cellar.json';
/** Timeout of the first write, in ms. */
const CREATE_MS = 10_000;
/** Answers when the object is there already. */
const EXISTS = [409, 412];
const CHECK = 'belongs to this Cellar';

/** This Cellar, as the bucket knows it. */
export interface BucketOwner {
  /** This Cellar's id. */
  cellar: string;
  /** Whether it has data in its bucket. */
  hasData: boolean;
}

/** Returns the id of the Cellar that has a bucket; null for an unused one. @throws {UnusableStore} */
export async function readOwner(place: S3Place): Promise<string | null> {
  const found = await new S3Store(place).read(OWNER).catch((error: unknown) => {
    if (error instanceof MissingObject) return null;
    throw new UnusableStore(CHECK, reason(error), true);
  });
  if (found === null) return null;
  try {
    return String(JSON.parse(found.toString('utf8')).cellar);
  } catch {
    throw new UnusableStore(CHECK, `${place.prefix}${OWNER} is not what a Cellar writes`);
  }
}

/**
 * Claims an unused bucket for this Cellar.
 * @throws {UnusableStore} when another Cellar has it, or when this one has its apps' data elsewhere
 */
export async function claimBucket(place: S3Place, { cellar, hasData }: BucketOwner): Promise<void> {
  const found = await readOwner(place);
  if (found === null && hasData)
    throw new UnusableStore(
      CHECK,
      `this Cellar has data in a bucket, and this is not the one (it has no ${place.prefix}${OWNER}): set RUNNER_BUCKET as it was`,
    );
  if (found === null) await create(place, cellar);
  const owner = found ?? (await readOwner(place));
  if (owner !== cellar)
    throw new UnusableStore(
      CHECK,
      `it is of another Cellar (${owner}, this one is ${cellar}): give this one a prefix of its own in RUNNER_BUCKET`,
    );
}

/** Writes the owner unless another Cellar has just done it. @throws {UnusableStore} */
async function create(place: S3Place, cellar: string): Promise<void> {
  const request: RequestInit = {
    method: 'PUT',
    body: `${JSON.stringify({ cellar })}\n`,
    headers: { 'if-none-match': '*' },
    redirect: 'error',
    signal: AbortSignal.timeout(CREATE_MS),
  };
  try {
    const answer = await s3Client(place).fetch(`${bucketUrl(place)}/${place.prefix}${OWNER}`, request);
    await answer.body?.cancel();
    if (!answer.ok && !EXISTS.includes(answer.status)) throw new Error(`it answered ${answer.status}`);
  } catch (error) {
    throw new UnusableStore(CHECK, reason(error), true);
  }
}
