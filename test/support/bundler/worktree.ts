// Worktrees for tests of the bundler, which runs in this process.
import { mkdtempSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { type Bundled, bundleProject } from '../../../bundler/bundle.ts';
import type { PageFolders } from '../../../bundler/project/pages.ts';
import type { BuildSettings } from '../../../handlers/contract/host/host-calls.ts';
import { NO_SETTINGS } from '../../../runtime/builds/release/build-input.ts';
import { type Files, makeDirectory, writeFiles } from '../builds/projects.ts';

/** Returns functions that write and bundle worktrees in a temporary directory. */
export function makeWorktrees() {
  const directory = makeDirectory();
  const root = realpathSync(directory.path);
  return {
    root,
    remove: directory.remove,
    write(files: Files): string {
      const worktree = mkdtempSync(join(root, 'worktree-'));
      writeFiles(worktree, files);
      return worktree;
    },
    /** Bundles files. `read` returns the text of a bundled file, `list` all paths of the bundle. */
    async bundle(
      files: Files,
      environment: string | null = null,
      assetsMb = 500,
      before: PageFolders | null = null,
      set: Partial<BuildSettings> = {},
    ): Promise<Bundled & { out: string; read: (path: string) => string; list: () => string[] }> {
      const worktree = this.write(files);
      const out = join(mkdtempSync(join(root, 'out-')), 'bundle');
      const bundled = await bundleProject({
        worktree,
        settings: { ...NO_SETTINGS, ...set },
        out,
        environment,
        deployLine: null,
        assetsMb,
        before,
      });
      return {
        ...bundled,
        out,
        read: (path) => readFileSync(join(out, path), 'utf8'),
        list: () => listFiles(out),
      };
    },
  };
}

function listFiles(path: string): string[] {
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(path.length + 1))
    .sort();
}

/** A Wrangler project whose Worker is `index.js`. */
export function wranglerProject(config: Record<string, unknown>, files: Files = {}): Files {
  return {
    'index.js': 'export default { fetch() {} }; export class Room {}; export class Other {}',
    'wrangler.jsonc': JSON.stringify({
      name: 'x',
      main: 'index.js',
      compatibility_date: '2026-10-01',
      ...config,
    }),
    ...files,
  };
}
