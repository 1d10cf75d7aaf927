// Fills an empty repository with one of the projects in `templates/`.
import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { templates } from '../../handlers/contract/apps/templates.ts';
import { Refusal } from '../refusal.ts';
import { commitFiles, type MadeCommit } from './commit.ts';
import { DEPLOY_REF } from './repository.ts';
import { resolveCommit } from './source.ts';

/** The directory of the templates. Each template is in a folder with its name. */
export const TEMPLATES = fileURLToPath(new URL('../../templates', import.meta.url));

/**
 * Makes a commit of a template for main of a repository without commits.
 * @param scratch an existing directory for temporary files
 * @throws {Refusal} `commit_conflict` when there are commits, `invalid_input` for an unknown template
 */
export async function commitTemplate(
  repository: string,
  scratch: string,
  name: string,
  author: { name: string; email: string },
): Promise<MadeCommit> {
  const template = templates.find((known) => known.name === name);
  if (template === undefined) throw new Refusal(400, 'invalid_input', `there is no template ${name}`);
  if ((await resolveCommit(repository, DEPLOY_REF)) !== null)
    throw new Refusal(
      409,
      'commit_conflict',
      'the app has commits already; only an empty app can take a template',
    );
  const directory = join(TEMPLATES, template.name);
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)))
    .map(async (path) => {
      const content = await readFile(join(directory, path));
      return { path, content, mode: null, delete: false, from: null };
    });
  const message = `Start from the template ${template.title}`;
  return commitFiles(repository, scratch, { message, author, parent: null, files: await Promise.all(files) });
}
