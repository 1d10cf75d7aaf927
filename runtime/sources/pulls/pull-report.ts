// Reports the state of a pull request's preview to the Git host: a commit status, and one comment.
import type { StoredPull } from '../../../sqlite/host/source/pulls.ts';
import type { CommitStatus, GitHostApi } from './git-host-api.ts';

const DESCRIPTION_LENGTH = 140;

/** The app of a pull request. */
export interface ReportedApp {
  id: string;
  slug: string;
}

/** Returns whether the newest state has not been reported to the Git host yet. */
export function isUnreported(pull: StoredPull): boolean {
  return pull.reported !== stateOf(pull);
}

/**
 * Writes the status and the comment to the Git host. A repetition changes nothing there.
 * @param url the address of the preview; null for none
 * @returns the pull request, with what was reported
 * @throws {Error} with what the Git host answered
 */
export async function report(
  api: GitHostApi,
  { id, slug }: ReportedApp,
  pull: StoredPull,
  url: string | null,
  signal: AbortSignal,
): Promise<StoredPull> {
  const told = { ...pull, reported: stateOf(pull) };
  // A pull request that never had a comment needs none when it is closed.
  if (pull.state === 'closed' && pull.comment === null) return told;
  if (pull.state !== 'closed') await api.setStatus(pull.sha, statusOf(pull, slug, url), signal);
  const text = commentOf(pull, slug, url);
  return {
    ...told,
    comment: await api.comment(pull.number, pull.comment, text, `<!-- cellar ${id} -->`, signal),
  };
}

/** Returns a text that changes with everything that is reported. `queued` and `building` are the same to the Git host. */
function stateOf({ state, sha, error }: StoredPull): string {
  const shown = state === 'queued' ? 'building' : state;
  return `${sha} ${shown} ${state === 'failed' ? (error ?? '') : ''}`.trim();
}

function statusOf({ state, error }: StoredPull, slug: string, url: string | null): CommitStatus {
  const context = `cellar/${slug}`;
  if (state === 'live') return { state: 'success', context, description: 'The preview is live', url };
  if (state === 'failed') {
    const description = `No preview: ${error ?? 'the deploy failed'}`.slice(0, DESCRIPTION_LENGTH);
    return { state: 'failure', context, description, url: null };
  }
  const description =
    state === 'waiting' ? 'Waits until it is approved in Cellar' : 'The preview is being built';
  return { state: 'pending', context, description, url: null };
}

function commentOf({ number, state, sha, error }: StoredPull, slug: string, url: string | null): string {
  const title = `**Preview of ${slug}**`;
  const commit = sha.slice(0, 8);
  switch (state) {
    case 'live':
      return `${title}: ${url} shows ${commit}.`;
    case 'failed':
      return `${title}: ${commit} has no preview. ${fenced(error ?? 'The deploy failed')}`;
    case 'closed':
      return `${title}: the preview was removed.`;
    case 'waiting':
      return `${title}: ${commit} is from a fork or from an author outside of the repository, so somebody who may push to the app has to approve it in Cellar, with \`cellar source approve ${number} --sha ${sha}\`.`;
    default:
      return `${title}: ${commit} is being built.`;
  }
}

/** Returns a build's text as a code block of Markdown, so that the Git host ignores mentions and markup in it. */
function fenced(text: string): string {
  return `\n\n\`\`\`text\n${text.replaceAll('`', "'")}\n\`\`\``;
}
