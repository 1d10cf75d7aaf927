// Reads the pull request of a delivery in the formats of GitHub, GitLab, Gitea and Forgejo.
import * as z from 'zod';
import type { PullEvent } from '../contract/source/pulls.ts';
import { cutText } from '../contract/text.ts';

const SHOWN_LENGTH = 200;
/** Values of GitHub's `author_association` for authors who belong to the repository. */
const MEMBERS = ['OWNER', 'MEMBER', 'COLLABORATOR'];

const sha = z.string().regex(/^[0-9a-f]{40}$/);
const number = z.int().positive();
const name = z.string().max(300);
const title = z.string().transform((text) => cutText(text, SHOWN_LENGTH));
/**
 * Start of `head.ref` of an AGit pull request, at Gitea and Forgejo. Users who may only read the repository can open one by
 * a push, without a branch or a fork.
 */
const AGIT = 'refs/pull/';
/** Value of `flow` of an AGit pull request, at Forgejo. */
const AGIT_FLOW = 1;
/** A time. GitLab also writes it as `2026-01-02 03:04:05 UTC`. */
const changed = z.string().transform((text, context) => {
  const time = Date.parse(text);
  if (Number.isNaN(time)) context.addIssue({ code: 'custom', message: 'no time' });
  return time;
});

const common = z.object({
  pull_request: z.object({
    number,
    title,
    state: z.enum(['open', 'closed']),
    updated_at: changed,
    author_association: z.string().optional(),
    flow: z.int().optional(),
    user: z.object({ login: name }),
    // Null when the repository was deleted.
    head: z.object({ ref: z.string(), sha, repo: z.object({ full_name: name }).nullable() }),
    base: z.object({ repo: z.object({ full_name: name }) }),
  }),
});

const gitlab = z.object({
  project: z.object({ path_with_namespace: name }),
  object_attributes: z.object({
    iid: number,
    title,
    state: z.string(),
    updated_at: changed,
    author_id: z.int(),
    source_project_id: z.int().nullable(),
    target_project_id: z.int(),
    last_commit: z.object({ id: sha }),
  }),
});

const READERS: Record<string, (payload: object) => PullEvent | null> = {
  pull_request: (payload) => readCommon(payload),
  pull_request_sync: (payload) => readCommon(payload),
  'Merge Request Hook': (payload) => readGitLab(payload),
};

/**
 * Returns the pull request of a delivery.
 * @param isGitHub whether GitHub sent the delivery; Gitea and Forgejo use the same format
 * @returns null when the delivery is not about a pull request, or its format is unknown
 */
export function pullOf(event: string, isGitHub: boolean, payload: () => object): PullEvent | null {
  const read = Object.hasOwn(READERS, event) ? READERS[event] : undefined;
  const pull = read?.(payload()) ?? null;
  return pull && isGitHub ? { ...pull, host: 'github' } : pull;
}

function readCommon(payload: object): PullEvent | null {
  const { data } = common.safeParse(payload);
  if (data === undefined) return null;
  const { head, base, user, author_association, updated_at, state, flow, ...pull } = data.pull_request;
  const isAGit = head.ref.startsWith(AGIT) || flow === AGIT_FLOW;
  return {
    host: 'gitea',
    repository: base.repo.full_name,
    number: pull.number,
    title: pull.title,
    author: user.login,
    sha: head.sha,
    is_open: state === 'open',
    is_inside: !isAGit && head.repo?.full_name === base.repo.full_name,
    // Null for all others, because they may be members too: GitHub does not show the private members of an organization.
    is_member: MEMBERS.includes(author_association ?? '') || null,
    changed_at: updated_at,
  };
}

function readGitLab(payload: object): PullEvent | null {
  const { data } = gitlab.safeParse(payload);
  if (data === undefined) return null;
  const { object_attributes: merge, project } = data;
  return {
    host: 'gitlab',
    repository: project.path_with_namespace,
    number: merge.iid,
    title: merge.title,
    author: String(merge.author_id),
    sha: merge.last_commit.id,
    is_open: merge.state === 'opened' || merge.state === 'locked',
    is_inside: merge.source_project_id === merge.target_project_id,
    is_member: null,
    changed_at: merge.updated_at,
  };
}
