// Limits the number of large bodies that the control plane has in memory at once.
import type { Context } from '../context.ts';
import { BODY_BYTES } from '../contract/sizes.ts';
import { Problem } from '../problem.ts';

/** Maximum concurrent large bodies of one account. */
const MOST_PER_ACCOUNT = 2;
/** Maximum concurrent large bodies. Low, because a body of 36 MiB takes 200 MB while it is parsed and checked. */
const MOST = 8;
/**
 * Maximum concurrent large bodies that are not authenticated yet, because their signature can be checked only after they are
 * read. They also count towards `MOST`.
 */
const MOST_UNPROVED = 4;
const UNPROVED = 'unproved ';

/** The account of each large body, by request. */
const held = new Map<Request, string>();

/**
 * Counts a request's body, unless `Content-Length` says that it is small. Call this before the body is read into memory, and
 * `releaseBody` when the request is answered.
 * @param account the sender of the body
 * @throws {Problem} `rate_limited` when there are too many large bodies
 */
export function holdBody(request: Request, account: string): void {
  const length = request.headers.get('content-length');
  if (length !== null && Number(length) <= BODY_BYTES) return;
  const own = [...held.values()].filter((each) => each === account).length;
  if (own >= MOST_PER_ACCOUNT || held.size >= MOST) {
    const [count, whose] =
      own >= MOST_PER_ACCOUNT ? ([own, 'of yours'] as const) : ([held.size, 'of all accounts'] as const);
    throw tooMany(count, whose);
  }
  held.set(request, account);
}

/**
 * Like `holdBody`, for a body whose sender is not authenticated yet. Such a body does not count towards the account's limit of
 * authenticated bodies.
 */
export function holdUnproved(request: Request, account: string): void {
  holdBody(request, UNPROVED + account);
  const unproved = [...held].filter(([, each]) => each.startsWith(UNPROVED));
  if (!held.has(request) || unproved.length <= MOST_UNPROVED) return;
  held.delete(request);
  throw tooMany(MOST_UNPROVED, 'with signatures');
}

/** Returns the account for which a caller's bodies are counted. */
export function holderOf({ actor }: Context): string {
  return actor.kind === 'account' ? actor.id : actor.kind;
}

export function releaseBody(request: Request): void {
  held.delete(request);
}

function tooMany(count: number, whose: string): Problem {
  return new Problem(
    'rate_limited',
    `${count} request bodies ${whose} over ${BODY_BYTES} bytes are being read now, the maximum. Send large bodies one after another.`,
  );
}
