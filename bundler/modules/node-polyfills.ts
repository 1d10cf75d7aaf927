// Polyfills for what workerd lacks of Node at a compatibility date, from the packages that Wrangler uses.
import { realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { isInside } from '../project/path-containment.ts';

const { resolve } = createRequire(import.meta.url);

/** Since this compatibility date workerd has Node's modules and globals without a flag. */
export const DEFAULT_SINCE = '2026-08-04';
/** Since this compatibility date `nodejs_compat` implies `nodejs_compat_v2`. */
const COMPAT_V2_SINCE = '2024-09-23';
const PACKAGES = ['unenv', '@cloudflare/unenv-preset'];

export interface NodePolyfills {
  /** Node's modules that may be imported without `node:`. */
  names: readonly string[];
  /** Path of the polyfill by import name, such as `os` and `node:os`. */
  files: ReadonlyMap<string, string>;
  /** Source of a module that sets a global, by the global's name. */
  globals: ReadonlyMap<string, string>;
  /** Files that set globals when they run, after `globals`. */
  scripts: string[];
  /** Whether a file belongs to the packages of the polyfills. */
  has(path: string): boolean;
}

/** Whether a Worker with this date and these flags has Node's globals and names without `node:`. */
function hasCompatV2(date: string, flags: string[]): boolean {
  if (flags.includes('nodejs_compat_v2')) return true;
  if (flags.includes('no_nodejs_compat_v2')) return false;
  return date >= DEFAULT_SINCE || (flags.includes('nodejs_compat') && date >= COMPAT_V2_SINCE);
}

/** Returns the polyfills for a compatibility date and flags; `null` when the Worker needs none. */
export async function nodePolyfills(date: string, flags: string[]): Promise<NodePolyfills | null> {
  if (!hasCompatV2(date, flags)) return null;
  const [{ defineEnv }, { getCloudflarePreset, nonPrefixedNodeModules }] = await Promise.all([
    import('unenv'),
    import('@cloudflare/unenv-preset'),
  ]);
  const preset = getCloudflarePreset({ compatibilityDate: date, compatibilityFlags: flags });
  const { alias, inject, polyfill, external } = defineEnv({ presets: [preset], npmShims: true }).env;
  const files = new Map<string, string>();
  for (const [name, target] of Object.entries(alias)) {
    // As in Wrangler, the package `debug` is not replaced: unenv's replacement prints nothing.
    if (name !== 'debug' && !external.includes(target)) files.set(name, resolve(target));
  }
  const globals = Object.entries(inject).map(([name, target]): [string, string] => {
    const [from, exported = 'default'] = [target].flat();
    const source = JSON.stringify(files.get(from!) ?? (from!.startsWith('node:') ? from : resolve(from!)));
    return [name, `import { ${exported} as value } from ${source};\nglobalThis.${name} = value;`];
  });
  const directories = PACKAGES.map((name) => realpathSync(dirname(resolve(`${name}/package.json`))));
  return {
    names: nonPrefixedNodeModules,
    files,
    globals: new Map(globals),
    scripts: polyfill.map((name) => resolve(name)),
    has: (path) => directories.some((directory) => isInside(directory, path)),
  };
}
