// The APIs of Git hosts for pull requests: commit statuses, comments, and who belongs to a repository.
import type { PullHost } from '../../../handlers/contract/source/pulls.ts';
import { hasBrokenEscape, type Remote } from '../../../handlers/contract/source/remote.ts';
import type { PublicAddresses } from '../../isolation/private-networks.ts';
import { askGitHost, type GitHostTarget } from './git-host-request.ts';

const HTTPS_PORT = 443;
/** How many comments of a pull request are searched for Cellar's own. */
const COMMENTS = 30;
/** Access level of GitLab's role Developer, the lowest that may push. */
const DEVELOPER = 30;

/** The state that the Git host shows for a commit. */
export type CommitState = 'pending' | 'success' | 'failure';

export interface CommitStatus {
  state: CommitState;
  /** Distinguishes this status from the statuses of other services. */
  context: string;
  /** At most 140 characters, as GitHub takes it. */
  description: string;
  /** Link that the Git host shows with the status; null for none. */
  url: string | null;
}

/** Each method rejects with an `Error` that says what the Git host answered. */
export interface GitHostApi {
  /** Whether an author owns the repository, or belongs to it as a collaborator or by a team; on GitLab, may push. */
  isMember: (author: string, signal: AbortSignal) => Promise<boolean>;
  setStatus: (sha: string, status: CommitStatus, signal: AbortSignal) => Promise<void>;
  /**
   * Writes a comment, or replaces it.
   * @param known the comment's number; null: one with `mark` in its text is looked for first
   * @returns its number
   */
  comment: (
    pull: number,
    known: number | null,
    text: string,
    mark: string,
    signal: AbortSignal,
  ) => Promise<number>;
}

export interface GitHostAccess {
  host: PullHost;
  remote: Remote;
  token: string;
  reachable: PublicAddresses;
}

/** Returns the full name of a repository, such as `ada/shop`. */
export function repositoryName({ url }: Remote): string {
  const { pathname } = new URL(url);
  // Connections that were made by an earlier version may have a broken escape.
  const path = hasBrokenEscape(pathname) ? pathname : decodeURIComponent(pathname);
  return path.replace(/^\/+|\/+$/g, '').replace(/\.git$/, '');
}

/** Returns the API of a repository's Git host. The API has the repository's hostname, except for github.com. */
export function gitHostApi({ host, remote, token, reachable }: GitHostAccess): GitHostApi {
  const name = repositoryName(remote);
  const isGitHubCom = host === 'github' && remote.host === 'github.com';
  const target = (prefix: string, headers: Record<string, string>): GitHostTarget => ({
    remote: {
      host: isGitHubCom ? 'api.github.com' : remote.host,
      port: remote.kind === 'ssh' ? HTTPS_PORT : remote.port,
    },
    prefix,
    headers,
    reachable,
  });
  const path = name.split('/').map(encodeURIComponent).join('/');
  if (host === 'gitlab')
    return gitLab(target(`/api/v4/projects/${encodeURIComponent(name)}`, { 'private-token': token }));
  if (host === 'gitea') {
    const gitea = target(`/api/v1/repos/${path}`, { authorization: `token ${token}` });
    const api = issueApi(gitea, name);
    return {
      ...api,
      isMember: async (author, signal) =>
        (await api.isMember(author, signal)) || isAssignable(gitea, author, signal),
    };
  }
  const prefix = isGitHubCom ? `/repos/${path}` : `/api/v3/repos/${path}`;
  const headers = {
    authorization: `Bearer ${token}`,
    accept: 'application/vnd.github+json',
    'x-github-api-version': '2022-11-28',
  };
  return issueApi(target(prefix, headers), name);
}

/** The API of GitHub, Gitea and Forgejo, in which the comments of a pull request are those of an issue. */
function issueApi(target: GitHostTarget, name: string): GitHostApi {
  return {
    async isMember(author, signal) {
      if (name.split('/')[0]!.toLowerCase() === author.toLowerCase()) return true;
      const path = `/collaborators/${encodeURIComponent(author)}`;
      // GitHub answers 403 to a token whose owner may not push, and also beyond its rate limit, which passes.
      const answer = await askGitHost(target, 'GET', path, null, signal, [403, 404]);
      if (answer.status === 403 && /rate limit/i.test(JSON.stringify(answer.json())))
        throw new Error('the rate limit of the Git host is reached');
      return answer.status === 204;
    },
    async setStatus(sha, { url, ...status }, signal) {
      const body = { ...status, ...(url !== null && { target_url: url }) };
      await askGitHost(target, 'POST', `/statuses/${sha}`, body, signal);
    },
    comment: (pull, known, text, mark, signal) =>
      writeComment(target, 'PATCH', `/issues/${pull}/comments`, '/issues/comments', {
        known,
        text,
        mark,
        signal,
      }),
  };
}

/** Whether an author is in Gitea's list of assignees. It has the members of teams, who are no collaborators there. */
async function isAssignable(target: GitHostTarget, author: string, signal: AbortSignal): Promise<boolean> {
  const list = (await askGitHost(target, 'GET', '/assignees', null, signal)).json();
  const assignees = Array.isArray(list) ? (list as { login?: unknown }[]) : [];
  return assignees.some((each) => String(each?.login).toLowerCase() === author.toLowerCase());
}

function gitLab(target: GitHostTarget): GitHostApi {
  const states = { pending: 'pending', success: 'success', failure: 'failed' };
  return {
    async isMember(author, signal) {
      const path = `/members/all/${encodeURIComponent(author)}`;
      const { status, json } = await askGitHost(target, 'GET', path, null, signal, [404]);
      if (status !== 200) return false;
      const { access_level } = (json() ?? {}) as { access_level?: unknown };
      return typeof access_level === 'number' && access_level >= DEVELOPER;
    },
    async setStatus(sha, { state, context, description, url }, signal) {
      const body = {
        state: states[state],
        name: context,
        description,
        ...(url !== null && { target_url: url }),
      };
      // GitLab refuses a state that the commit has already, with 400.
      await askGitHost(target, 'POST', `/statuses/${sha}`, body, signal, state === 'pending' ? [400] : []);
    },
    comment: (pull, known, text, mark, signal) => {
      const notes = `/merge_requests/${pull}/notes`;
      return writeComment(target, 'PUT', notes, notes, { known, text, mark, signal });
    },
  };
}

interface Comment {
  known: number | null;
  text: string;
  mark: string;
  signal: AbortSignal;
}

/** Replaces Cellar's comment, at `one`/number. When it was deleted, or there is none yet, writes a new one to `all`. */
async function writeComment(
  target: GitHostTarget,
  replace: 'PATCH' | 'PUT',
  all: string,
  one: string,
  { known, text, mark, signal }: Comment,
): Promise<number> {
  const body = { body: `${text}\n\n${mark}` };
  const number = known ?? (await findComment(target, all, mark, signal));
  if (number !== null) {
    const { status } = await askGitHost(target, replace, `${one}/${number}`, body, signal, [404]);
    if (status !== 404) return number;
  }
  return numberOf((await askGitHost(target, 'POST', all, body, signal)).json());
}

async function findComment(
  target: GitHostTarget,
  all: string,
  mark: string,
  signal: AbortSignal,
): Promise<number | null> {
  // GitHub and GitLab take `per_page`, Gitea takes `limit`. `sort` is for GitLab, which otherwise begins with the newest
  // comment.
  const path = `${all}?per_page=${COMMENTS}&limit=${COMMENTS}&sort=asc`;
  const list = (await askGitHost(target, 'GET', path, null, signal)).json();
  const comments = Array.isArray(list) ? (list as { body?: unknown }[]) : [];
  const own = comments.find((each) => typeof each?.body === 'string' && each.body.endsWith(mark));
  return own === undefined ? null : numberOf(own);
}

function numberOf(json: unknown): number {
  const { id } = (json ?? {}) as { id?: unknown };
  if (typeof id === 'number' && Number.isSafeInteger(id)) return id;
  throw new Error('the Git host did not say which number the comment has');
}
