// Decides whether an install can be cached: its result must depend only on package.json files, the lock file and settings.
import { dirname, join } from 'node:path';
import { isThere } from './path-containment.ts';
import { readPackageJson } from './project.ts';

/** Scripts that package managers run for an install. Their result depends on other files of the project. */
const INSTALL_SCRIPTS = /^(?:(?:pre|post)?(?:install|prepare)|prepublish|dependencies|pnpm:devPreinstall)$/;
/** Matches the version of a package that is a local folder or file. */
const LOCAL = /^(?:file:|link:|portal:|\.|\/|~)/;

/**
 * Returns why the next build cannot reuse an install of a project; `null` when it can.
 * @param root real path of the project
 * @param manifests paths of all its package.json files
 * @throws {BuildFailure} for a package.json that cannot be read
 */
export function whyInstallAnew(root: string, manifests: string[]): string | null {
  for (const path of manifests) {
    const manifest = readPackageJson(root, path);
    const script = Object.keys(manifest?.scripts ?? {}).find((name) => INSTALL_SCRIPTS.test(name));
    if (script !== undefined) return `${path} has a script "${script}"`;
    const local = manifest?.dependencies.find(([, version]) => LOCAL.test(version));
    if (local !== undefined) return `${path} installs ${local[0]} from ${local[1]}`;
    if (isThere(root, join(root, dirname(path), 'binding.gyp'))) return `binding.gyp lies beside ${path}`;
  }
  return null;
}
