// Copies a project's static assets. workerd applies `_headers`, `_redirects` and `.assetsignore`.
import { constants, copyFileSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { setContentTime } from '../content-time.ts';
import { BuildFailure } from '../failure.ts';
import { MAX_ENTRIES, RULES_BYTES } from '../limits.ts';
import type { AssetRules } from '../release.ts';
import { PAGES_FILES } from './cloudflare-pages.ts';
import { isInside, realInside, show } from './path-containment.ts';
import type { Place } from './place.ts';

/** Names that are not served, in any folder: secrets of local development, and files of Git, Cellar, Wrangler and macOS. */
const PRIVATE = /^(\.git|\.cellar|\.dev\.vars(\..*)?|\.env(\..*)?|\.wrangler|\.DS_Store)$/;
/** Names that are not served directly in the project's folder: hidden files, files of build tools, and functions/. */
const TOOLS =
  /^(\.(?!well-known$|assetsignore$).*|wrangler\.(toml|jsonc?)|package(-lock)?\.json|npm-shrinkwrap\.json|pnpm-(lock|workspace)\.yaml|yarn\.lock|bun\.lockb?|deno\.(jsonc?|lock)|[\w.-]+\.config\.([cm]?[jt]sx?|json)|[jt]sconfig.*\.json|(angular|lerna|nx|turbo|biome)\.jsonc?|Dockerfile|Makefile|functions)$/;

const LINKS = 'a linked folder counts once for each path that leads to it';

interface CopyOptions {
  /** Whether to copy a file or a folder, by its path relative to the copied folder. Default: all are copied. */
  isCopied?: (path: string, isFolder: boolean) => boolean;
  /** Ends the message about an exceeded limit. Default: `LINKS`. */
  advice?: string;
}

/**
 * Copies the assets in `from` to `to`. The copies have the modification times of `setContentTime`.
 * @param limitMb maximum MiB of the copy; a file counts once for each path that leads to it
 * @returns the number of files, and the number of HTML files among them
 * @throws {BuildFailure} when a symbolic link leaves the project, leads nowhere or to a folder that contains it, and when
 * there are more files or MiB than the limits allow
 */
export function copyAssets(
  place: Place,
  from: string,
  to: string,
  limitMb: number,
  { isCopied = () => true, advice = LINKS }: CopyOptions = {},
): { files: number; pages: number } {
  const count = counter(show(place.root, from), limitMb, advice);
  const assets = listAssets(place, from, to, count, isCopied);
  for (const { real, target, kind } of assets) {
    if (kind === 'folder') {
      mkdirSync(target);
      continue;
    }
    copyFileSync(real, target, constants.COPYFILE_FICLONE);
    setContentTime(target);
  }
  const files = assets.filter(({ kind }) => kind === 'file');
  const pages = files.filter(({ target }) => /\.html?$/.test(target));
  return { files: files.length, pages: pages.length };
}

const RULE_FILES = { headers: '_headers', redirects: '_redirects', ignore: '.assetsignore' } as const;

/**
 * Reads the `RULE_FILES` of the assets in `directory`.
 * @throws {BuildFailure} for a file with more than `RULES_BYTES`
 */
export function assetRules(directory: string): AssetRules {
  const rules: AssetRules = {};
  for (const [rule, name] of Object.entries(RULE_FILES)) {
    const stats = statSync(join(directory, name), { throwIfNoEntry: false });
    if (!stats?.isFile()) continue;
    if (stats.size > RULES_BYTES)
      throw new BuildFailure(`assets: ${name} has more than ${RULES_BYTES / 2 ** 20} MiB`);
    rules[rule as keyof AssetRules] = readFileSync(join(directory, name), 'utf8');
  }
  return rules;
}

/**
 * Returns log lines about `_worker.js` and functions/, which run only in a Cloudflare Pages project.
 * @param from the assets
 */
export function pagesOnlyCode({ root, folder }: Place, from: string): string[] {
  const notes: string[] = [];
  if (isInside(root, join(from, '_worker.js')))
    notes.push('_worker.js is not run: name it as "main" in wrangler.jsonc');
  if (isInside(root, join(folder, 'functions')) && from !== join(folder, 'functions'))
    notes.push(
      'functions/ is not run: only a Pages project, with "pages_build_output_dir" instead of "assets", runs it',
    );
  return notes;
}

interface Asset {
  real: string;
  target: string;
  kind: 'file' | 'folder';
}

/** Returns all entries to copy, each folder before the entries in it. */
function listAssets(
  { root, folder }: Place,
  from: string,
  to: string,
  count: (bytes: number) => void,
  isCopied: (path: string, isFolder: boolean) => boolean,
): Asset[] {
  const assets: Asset[] = [];
  const list = (source: string, path: string, target: string, above: string[]) => {
    const real = realInside(root, path);
    if (real === null) throw refusal(show(root, source));
    if (above.includes(real))
      throw new BuildFailure(`assets: ${show(root, source)} is a link to a folder that contains the link`);
    const stats = statSync(real);
    if (source !== from && !isCopied(relative(from, source), stats.isDirectory())) return;
    count(stats.isFile() ? stats.size : 0);
    if (stats.isFile()) assets.push({ real, target, kind: 'file' });
    if (!stats.isDirectory()) return;
    assets.push({ real, target, kind: 'folder' });
    for (const name of readdirSync(real)) {
      const isOfPages = source === from && PAGES_FILES.includes(name);
      const hidden =
        PRIVATE.test(name) ||
        isOfPages ||
        (source === folder && TOOLS.test(name)) ||
        (from === folder && name === 'node_modules');
      if (!hidden) list(join(source, name), join(real, name), join(target, name), [...above, real]);
    }
  };
  list(from, from, to, []);
  return assets;
}

function refusal(source: string): BuildFailure {
  return new BuildFailure(
    source.includes('\ufffd')
      ? `assets: the name of ${source} is not valid UTF-8, so no URL can name it`
      : `assets: ${source} is a link that leaves the project or leads nowhere`,
  );
}

/**
 * Limits the number and bytes of the entries to copy: with symbolic links a small project can have very many paths.
 * @returns a function that takes the bytes of the next file, or 0 for a folder
 */
function counter(directory: string, limitMb: number, advice: string): (bytes: number) => void {
  let entries = 0;
  let total = 0;
  return (bytes) => {
    total += bytes;
    if (++entries > MAX_ENTRIES)
      throw new BuildFailure(
        `assets: ${directory} has more than ${MAX_ENTRIES} files and folders; ${advice}`,
      );
    if (total > limitMb * 2 ** 20)
      throw new BuildFailure(
        `assets: ${directory} has more than the ${limitMb} MiB that a build may use (RUNNER_BUILD_MAX_MB); ${advice}`,
      );
  };
}
