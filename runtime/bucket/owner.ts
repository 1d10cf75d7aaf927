// Records which Cellar owns a bucket. Two Cellars in one bucket would overwrite each other's apps. A Cellar that is given
// another bucket would not find the data of its apps.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { reason } from '../log.ts';
import type { S3Place } from './place.ts';
import { UnusableStore } from './probe.ts';
import { smallObjects } from './s3-store.ts';
import { ChangedObject, ifThere } from './store.ts';

const OWNER = 'cellar.json';
const CHECK = 'belongs to this Cellar';
const ID = /^[\w-]{1,64}$/;

/** The Cellar and the machine that own a bucket. */
export interface BucketOwner {
  /** The id of the Cellar. */
  cellar: string;
  /** The id of the machine's data directory. A lost machine that comes back has another id than the one that replaced it. */
  machine: string;
  /** Whether several hosts share the bucket. Then the object in the bucket names no machine. */
  several?: boolean;
  /** Proof of the cluster key, as `proofOf` returns it. */
  proof: string;
}

/** The owner that a bucket names. An older version of Cellar wrote only `cellar`. */
export interface FoundOwner extends Partial<BucketOwner> {
  cellar: string;
  /** The etag of the object that names the owner. */
  etag: string;
}

/** Returns the proof that a Cellar has a cluster key. It does not reveal the key. */
export function proofOf(clusterKey: string, cellar: string): string {
  return createHmac('sha256', clusterKey).update(`cellar:${cellar}`).digest('hex');
}

/** Whether the Cellar of a bucket has this cluster key. */
export function provesCellar({ cellar, proof = '' }: FoundOwner, clusterKey: string): boolean {
  return areSame(proof, proofOf(clusterKey, cellar));
}

function areSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** Returns a bucket's owner; null for an unused bucket. @throws {UnusableStore} when it does not answer, or is damaged */
export async function readOwner(place: S3Place): Promise<FoundOwner | null> {
  const found = await ifThere(smallObjects(place).readTagged(OWNER)).catch((error: unknown) => {
    throw new UnusableStore(CHECK, reason(error), true);
  });
  if (found === null) return null;
  try {
    const { cellar, machine, several, proof } = JSON.parse(found.bytes.toString('utf8'));
    for (const id of [cellar, machine ?? '-', proof ?? '-'])
      if (typeof id !== 'string' || !ID.test(id)) throw new Error('it has no ids');
    return {
      cellar,
      ...(several === true && { several }),
      ...(machine && { machine }),
      ...(proof && { proof }),
      etag: found.etag,
    };
  } catch {
    throw new UnusableStore(
      CHECK,
      `${place.prefix}${OWNER} is not what a Cellar writes: repair it, or give this Cellar a prefix of its own in RUNNER_BUCKET`,
    );
  }
}

/**
 * Claims an unused bucket for this Cellar. If the bucket is claimed, checks that this host may use it. Updates an owner
 * that an older version or a single host wrote.
 * @param hasData whether this Cellar has data in its bucket
 * @throws {UnusableStore} when the bucket does not answer, or another Cellar or machine has it
 * @throws {UnusableStore} when the cluster key differs, or this Cellar's data is in another bucket
 * @throws {UnusableStore} when several hosts use the bucket, and this host does not join them
 */
export async function claimBucket(place: S3Place, own: BucketOwner, hasData: boolean): Promise<void> {
  const found = await readOwner(place);
  if (found === null && hasData)
    throw new UnusableStore(
      CHECK,
      `this Cellar has data in a bucket, and this is not the one (it has no ${place.prefix}${OWNER}): set RUNNER_BUCKET as it was`,
    );
  if (found === null) return write(place, own, null);
  if (found.cellar !== own.cellar)
    throw new UnusableStore(
      CHECK,
      `it is of another Cellar (${found.cellar}, this one is ${own.cellar}): give this one a prefix of its own in RUNNER_BUCKET`,
    );
  requireKey(found, own.proof, place);
  requireSameKind(found, own.several);
  if (found.machine !== undefined && found.machine !== own.machine)
    throw new UnusableStore(
      CHECK,
      'another machine continued this Cellar. To continue it here again, stop Cellar on that machine, move this data directory away, and start with an empty one',
    );
  const isComplete = found.several || (found.machine !== undefined && !own.several);
  if (!isComplete || found.proof === undefined) await write(place, own, found.etag);
}

/** @throws {UnusableStore} when several hosts use the bucket, and this host does not join them */
export function requireSameKind({ several }: FoundOwner, isOneOfSeveral = false): void {
  if (several && !isOneOfSeveral)
    throw new UnusableStore(
      CHECK,
      'several hosts have this Cellar: set RUNNER_ADDRESS to the private address of this one, and it joins them',
    );
}

/**
 * Takes an unused bucket.
 * @returns false when another Cellar or host has just taken it
 * @throws {UnusableStore} when the bucket does not answer
 */
export async function takeUnused(place: S3Place, own: BucketOwner): Promise<boolean> {
  return write(place, own, null).then(
    () => true,
    (error: unknown) => {
      if (error instanceof UnusableStore && !error.isAway) return false;
      throw error;
    },
  );
}

/**
 * Takes a bucket over from a lost machine of the same Cellar.
 * @throws {UnusableStore} when the cluster key differs, another machine has just taken the bucket, or it does not answer
 */
export async function takeBucket(place: S3Place, found: FoundOwner, own: BucketOwner): Promise<void> {
  requireKey(found, own.proof, place);
  await write(place, own, found.etag);
}

/** @throws {UnusableStore} when the bucket was used with another cluster key */
export function requireKey({ proof }: FoundOwner, own: string, { prefix }: S3Place): void {
  if (proof === undefined || areSame(proof, own)) return;
  throw new UnusableStore(
    CHECK,
    `it was used with another cluster key: set RUNNER_CLUSTER_KEY as it was, or put cluster-key back into the data directory. If that key is lost for good, remove "proof" from ${prefix}${OWNER}, and remove ${prefix}secrets.json`,
  );
}

/** Writes the bucket's owner. @param etag of the content to replace; null for a new object @throws {UnusableStore} */
async function write(
  place: S3Place,
  { cellar, machine, several, proof }: BucketOwner,
  etag: string | null,
): Promise<void> {
  const owner = several ? { cellar, several, proof } : { cellar, machine, proof };
  const bytes = Buffer.from(`${JSON.stringify(owner)}\n`);
  await smallObjects(place)
    .writeIf(OWNER, bytes, etag)
    .catch((error: unknown) => {
      if (error instanceof ChangedObject)
        throw new UnusableStore(CHECK, 'another Cellar or machine has just taken the bucket into use');
      throw new UnusableStore(CHECK, reason(error), true);
    });
}
