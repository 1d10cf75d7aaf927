// Finds the commit that a person names, and the tag with the highest version.
import { ChildError } from '../processes/child.ts';
import { Refusal } from '../refusal.ts';
import { runGit } from './git.ts';
import { DEPLOY_REF } from './repository.ts';
import { resolveCommit } from './source.ts';

/** Prefix of the full names of tags. */
export const TAGS = 'refs/tags/';
/** Setting of git that sorts `2.0-rc1` before `2.0` in lists of tags. */
export const VERSION_ORDER = { 'versionsort.suffix': '-' };
/** Maximum bytes of a list of objects whose hashes begin alike. */
const ALIKE_BYTES = 64 * 1024;

/** A commit, and the full name of the ref that leads to it. */
export interface NamedCommit {
  sha: string;
  ref: string;
}

/**
 * Returns the commit of a tag, else of a branch, else of a hash or its first digits. For a hash, `ref` is main.
 * @throws {Refusal} `ref_not_found`; `invalid_input` when the hashes of several commits begin with `name`
 */
export async function namedCommit(repository: string, name: string): Promise<NamedCommit> {
  for (const ref of [`${TAGS}${name}`, `refs/heads/${name}`]) {
    const sha = await resolveCommit(repository, ref);
    if (sha !== null) return { sha, ref };
  }
  const isHash = /^[0-9a-f]{4,40}$/i.test(name);
  const sha = isHash ? await resolveCommit(repository, name) : null;
  if (sha !== null) return { sha, ref: DEPLOY_REF };
  const alike = isHash ? await countAlike(repository, name) : 0;
  if (alike > 1)
    throw new Refusal(
      400,
      'invalid_input',
      `ref: the hashes of ${alike} commits begin with ${name}; give more digits`,
    );
  throw new Refusal(
    404,
    'ref_not_found',
    `ref: the repository has no tag, branch or commit ${name}; push it first`,
  );
}

/**
 * Returns the tag with the highest version; null without tags, or when that tag is not of a commit. Only tags that begin with
 * a digit, or with `v` and a digit, count. Without such tags, all tags count.
 */
export async function highestTag(repository: string): Promise<NamedCommit | null> {
  const order = Object.entries(VERSION_ORDER).flatMap(([key, value]) => ['-c', `${key}=${value}`]);
  const words = ['for-each-ref', '--sort=-version:refname', '--count=1', '--format=%(refname)'];
  const first = async (patterns: string[]) => {
    const { output } = await runGit(repository, [...order, ...words, ...patterns]);
    return output.toString('utf8').replace('\n', '');
  };
  const versions = ['[0-9]*', '[vV][0-9]*'].map((pattern) => TAGS + pattern);
  const ref = (await first(versions)) || (await first([TAGS]));
  const sha = ref === '' ? null : await resolveCommit(repository, ref);
  return sha === null ? null : { sha, ref };
}

/** Counts commits and annotated tags whose hashes begin with `digits`. */
async function countAlike(repository: string, digits: string): Promise<number> {
  try {
    const limits = { limitBytes: ALIKE_BYTES };
    const { output } = await runGit(repository, ['rev-parse', `--disambiguate=${digits}`], limits);
    const words = ['cat-file', '--batch-check=%(objecttype)'];
    const types = await runGit(repository, words, { input: output.toString('latin1'), ...limits });
    return types.output.toString('latin1').match(/^(?:commit|tag)$/gm)?.length ?? 0;
  } catch (error) {
    if (error instanceof ChildError && error.exitCode !== null) return 0;
    throw error;
  }
}
