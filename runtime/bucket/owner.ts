// Which Cellar a bucket belongs to. Two would overwrite each other's apps, and in another bucket than before, apps would find
// nothing.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { reason } from '../log.ts';
import { bucketUrl, s3Client } from './client.ts';
import type { S3Place } from './place.ts';
import { UnusableStore } from './probe.ts';
import { S3Store, SMALL_MS } from './s3-store.ts';
import { MissingObject } from './store.ts';

const OWNER = 'cellar.json';
/** Answers when the object is there already. */
const EXISTS = [409, 412];
const CHECK = 'belongs to this Cellar';

/** This Cellar, as the bucket knows it. */
export interface BucketOwner {
  /** This Cellar's id. */
  cellar: string;
  /** Whether it has data in its bucket. */
  hasData: boolean;
  /** Proves a cluster key, as `proofOf` makes it; null: it is written at the next start. */
  proof: string | null;
}

/** What a bucket says of its Cellar. */
export interface FoundOwner {
  cellar: string;
  /** Missing until a Cellar with a cluster key has started. */
  proof?: string;
}

/** Returns the proof that a Cellar has a cluster key. It does not reveal the key. */
export function proofOf(clusterKey: string, cellar: string): string {
  return createHmac('sha256', clusterKey).update(`cellar:${cellar}`).digest('hex');
}

/** Whether the Cellar of a bucket has this cluster key. */
export function provesCellar({ cellar, proof = '' }: FoundOwner, clusterKey: string): boolean {
  const expected = Buffer.from(proofOf(clusterKey, cellar));
  const found = Buffer.from(proof);
  return found.length === expected.length && timingSafeEqual(found, expected);
}

/** Returns the Cellar that has a bucket; null for an unused one. @throws {UnusableStore} */
export async function readOwner(place: S3Place): Promise<FoundOwner | null> {
  const found = await storeOf(place)
    .read(OWNER)
    .catch((error: unknown) => {
      if (error instanceof MissingObject) return null;
      throw new UnusableStore(CHECK, reason(error), true);
    });
  if (found === null) return null;
  try {
    const { cellar, proof } = JSON.parse(found.toString('utf8'));
    return { cellar: String(cellar), ...(proof && { proof: String(proof) }) };
  } catch {
    throw new UnusableStore(CHECK, `${place.prefix}${OWNER} is not what a Cellar writes`);
  }
}

/**
 * Claims an unused bucket for this Cellar.
 * @throws {UnusableStore} when another Cellar has it, or when this one has its apps' data elsewhere
 */
export async function claimBucket(place: S3Place, { cellar, hasData, proof }: BucketOwner): Promise<void> {
  const found = await readOwner(place);
  if (found === null && hasData)
    throw new UnusableStore(
      CHECK,
      `this Cellar has data in a bucket, and this is not the one (it has no ${place.prefix}${OWNER}): set RUNNER_BUCKET as it was`,
    );
  const own = { cellar, ...(proof !== null && { proof }) };
  if (found === null) await create(place, own);
  const owner = found ?? (await readOwner(place));
  if (owner?.cellar !== cellar)
    throw new UnusableStore(
      CHECK,
      `it is of another Cellar (${owner?.cellar}, this one is ${cellar}): give this one a prefix of its own in RUNNER_BUCKET`,
    );
  if (proof !== null && owner.proof !== proof) await storeOf(place).write(OWNER, contentOf(own));
}

function storeOf(place: S3Place): S3Store {
  return new S3Store(place, { deadlineMs: SMALL_MS });
}

function contentOf(owner: FoundOwner): Buffer<ArrayBuffer> {
  return Buffer.from(`${JSON.stringify(owner)}\n`);
}

/** Writes the owner unless another Cellar has just done it. @throws {UnusableStore} */
async function create(place: S3Place, owner: FoundOwner): Promise<void> {
  const request: RequestInit = {
    method: 'PUT',
    body: contentOf(owner),
    headers: { 'if-none-match': '*' },
    redirect: 'error',
    signal: AbortSignal.timeout(SMALL_MS),
  };
  try {
    const answer = await s3Client(place).fetch(`${bucketUrl(place)}/${place.prefix}${OWNER}`, request);
    await answer.body?.cancel();
    if (!answer.ok && !EXISTS.includes(answer.status)) throw new Error(`it answered ${answer.status}`);
  } catch (error) {
    throw new UnusableStore(CHECK, reason(error), true);
  }
}
