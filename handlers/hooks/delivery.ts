// Reads a webhook's delivery in the formats of GitHub, GitLab, Gitea, Forgejo and Bitbucket.
import { ANY_REF, type HookDelivery } from '../contract/source/connections.ts';
import { cutText } from '../contract/text.ts';
import { Problem } from '../problem.ts';
import { hexadecimal } from '../secrets.ts';
import { requireModerate } from '../transports/body.ts';
import { pullOf } from './pulls.ts';

const EVENTS = ['x-forgejo-event', 'x-gitea-event', 'x-gitlab-event', 'x-github-event', 'x-event-key'];
const DELIVERIES = [
  'webhook-id',
  'x-forgejo-delivery',
  'x-gitea-delivery',
  'x-gitlab-event-uuid',
  'x-github-delivery',
  'x-request-uuid',
];
/** Names of push events. The last two are Bitbucket's (Cloud, Data Center): their payloads have a list of changes, no `ref`. */
const PUSHES = ['push', 'Push Hook', 'Tag Push Hook', 'repo:push', 'repo:refs_changed'];
const SHOWN_LENGTH = 100;
const NO_SHA = /^0+$/;
const SHA = /^[0-9a-f]{40}$/;
const NO_PUSH = { ref: null, after: null };

/**
 * Parses a delivery whose signature was verified.
 * @param identity the value of `Signature.identity`
 * @throws {Problem} `malformed_json`, `body_too_large`
 */
export async function deliveryOf(
  headers: Headers,
  body: Uint8Array,
  identity: string,
): Promise<HookDelivery> {
  const event = firstOf(headers, EVENTS) ?? 'push';
  const digest = hexadecimal(await crypto.subtle.digest('SHA-256', body));
  return {
    digest: identity === '' ? digest : `${digest} ${cutText(identity, SHOWN_LENGTH)}`,
    delivery: cutText(firstOf(headers, DELIVERIES) ?? '', SHOWN_LENGTH),
    event: cutText(event, SHOWN_LENGTH),
    ...(PUSHES.includes(event) ? pushed(parse(headers, body)) : NO_PUSH),
    pull: pullOf(event, isGitHub(headers), () => parse(headers, body)),
  };
}

/** Returns the ref of a push; `ANY_REF` when the payload has none; `NO_PUSH` when the ref was deleted or is invalid. */
function pushed(payload: object): Pick<HookDelivery, 'ref' | 'after'> {
  const { ref, after } = payload as { ref?: unknown; after?: unknown };
  if (ref === undefined) return { ref: ANY_REF, after: null };
  if (typeof ref !== 'string' || !ref.startsWith('refs/')) return NO_PUSH;
  if (typeof after !== 'string') return { ref, after: null };
  if (NO_SHA.test(after)) return NO_PUSH;
  // For a tag, `after` may be the hash of the tag object instead of the commit.
  return { ref, after: ref.startsWith('refs/heads/') && SHA.test(after) ? after : null };
}

/** Parses a body as JSON, or as a form with JSON in its field `payload`, which GitHub sends by default. */
function parse(headers: Headers, body: Uint8Array): object {
  const isForm = headers.get('content-type')?.startsWith('application/x-www-form-urlencoded') ?? false;
  const text = new TextDecoder().decode(body);
  const json = isForm ? (new URLSearchParams(text).get('payload') ?? '') : text;
  requireModerate(json);
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // The error after this block refuses the body.
  }
  throw new Problem(
    'malformed_json',
    'The delivery is not a JSON object; choose the content type application/json.',
  );
}

/** Returns whether GitHub sent a delivery. Gitea and Forgejo send GitHub's header beside their own header. */
function isGitHub(headers: Headers): boolean {
  return EVENTS.find((name) => headers.has(name)) === 'x-github-event';
}

function firstOf(headers: Headers, names: string[]): string | null {
  return names.map((name) => headers.get(name)).find((value) => value !== null) ?? null;
}
