// Copies a project's static assets. What `_headers`, `_redirects` and `.assetsignore` say is workerd's to apply.
import { constants, copyFileSync, existsSync, mkdirSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { BuildFailure } from './failure.ts';
import { isInside, show } from './inside.ts';

/** Never served, wherever they lie: secrets of local development, and a repository's insides. */
const PRIVATE = /^(\.git|\.dev\.vars(\..*)?|\.env(\..*)?|\.wrangler|\.DS_Store)$/;
/** Not served when the project's root is the assets' directory: its tools' files, and hidden ones. */
const TOOLS =
  /^(\.(?!well-known$|assetsignore$).*|node_modules|wrangler\.(toml|jsonc?)|package(-lock)?\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml|yarn\.lock|bun\.lockb?|tsconfig.*\.json|_worker\.js|functions)$/;

/**
 * Copies the assets in `from` to `to`.
 * @param root real path of the project
 * @returns how many files, and lines for the deploy's log about what was left out
 * @throws {BuildFailure} when a symbolic link leaves the project
 */
export function copyAssets(root: string, from: string, to: string): { files: number; notes: string[] } {
  const notes: string[] = [];
  let files = 0;
  const copy = (source: string, target: string, above: string[]) => {
    if (!isInside(root, source) && source.includes('\ufffd'))
      throw new BuildFailure(
        `assets: the name of ${show(root, source)} is not valid UTF-8, so no URL can name it`,
      );
    if (!isInside(root, source))
      throw new BuildFailure(
        `assets: ${show(root, source)} is a link that leaves the project or leads nowhere`,
      );
    const real = realpathSync(source);
    if (above.includes(real))
      throw new BuildFailure(`assets: ${show(root, source)} is a link to a directory it lies in`);
    const kind = statSync(source);
    if (kind.isFile()) {
      copyFileSync(source, target, constants.COPYFILE_FICLONE);
      files++;
    } else if (kind.isDirectory()) {
      mkdirSync(target);
      for (const name of readdirSync(source)) {
        const hidden = PRIVATE.test(name) || (source === root && TOOLS.test(name));
        if (!hidden) copy(join(source, name), join(target, name), [...above, real]);
      }
    }
  };
  copy(from, to, []);
  if (existsSync(join(from, '_worker.js')))
    notes.push('_worker.js is not run: name it as "main" in wrangler.jsonc');
  if (existsSync(join(root, 'functions')) && from !== join(root, 'functions')) {
    notes.push('functions/ is not run: Pages Functions are not supported, make a Worker of them');
  }
  return { files, notes };
}
