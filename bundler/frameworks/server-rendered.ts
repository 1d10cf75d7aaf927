// Frameworks that render on a server, without a Wrangler configuration. A deploy runs `wrangler setup`, which adds their adapter.
// Nuxt and SolidStart need nothing: Nitro sees that a build for Workers runs.
import type { BuildSettings } from '../../handlers/contract/host/host-calls.ts';
import { hasFunctions } from '../project/cloudflare-pages.ts';
import type { Place } from '../project/place.ts';
import { dependsOn, type PackageJson } from '../project/project.ts';
import { type Adapter, configText } from './adapter.ts';

interface ServerFramework {
  name: string;
  /** Its package. */
  package: string;
  config: RegExp;
  /** Returns whether it renders on a server. @param config its configuration; empty: there is none */
  isServer: (config: string) => boolean;
  /** The configuration that Wrangler needs where there is none, by its name. */
  files?: Record<string, string>;
}

const SETUP = ['setup', '--yes', '--no-install-wrangler', '--no-completion-message'];
const VITE_CONFIG = /^vite\.config\.[cm]?[jt]s$/;
const isTanStackServer = (config: string) => !/\b(?:spa|prerender)\s*:/.test(config);
const FRAMEWORKS: ServerFramework[] = [
  {
    name: 'Astro',
    package: 'astro',
    config: /^astro\.config\.[cm]?[jt]s$/,
    isServer: (config) => /\boutput\s*:\s*["'`](?:server|hybrid)\b/.test(config),
  },
  {
    name: 'React Router',
    package: '@react-router/dev',
    config: /^react-router\.config\.[cm]?[jt]s$/,
    isServer: (config) => !/\bssr\s*:\s*false\b/.test(config),
    files: { 'react-router.config.ts': 'export default { ssr: true };\n' },
  },
  {
    name: 'SvelteKit',
    package: '@sveltejs/kit',
    config: /^svelte\.config\.[cm]?[jt]s$/,
    isServer: () => true,
  },
  {
    name: 'TanStack Start',
    package: '@tanstack/react-start',
    config: VITE_CONFIG,
    isServer: isTanStackServer,
  },
  {
    name: 'TanStack Start',
    package: '@tanstack/solid-start',
    config: VITE_CONFIG,
    isServer: isTanStackServer,
  },
];
/** Packages that make a site or a Worker of such a project by themselves. */
const ADAPTERS = [
  '@astrojs/cloudflare',
  '@cloudflare/vite-plugin',
  '@sveltejs/adapter-cloudflare',
  '@sveltejs/adapter-cloudflare-workers',
  '@sveltejs/adapter-static',
  '@tanstack/nitro-v2-vite-plugin',
  'nitro',
  'nitro-nightly',
  'nitropack',
  'vinxi',
];

/** Returns how a project gets its adapter, if its framework needs one of `wrangler setup`; else `null`. */
export function serverAdapter(place: Place, manifest: PackageJson, settings: BuildSettings): Adapter | null {
  const framework = FRAMEWORKS.find((each) => dependsOn(manifest, each.package));
  if (framework === undefined || ADAPTERS.some((name) => dependsOn(manifest, name))) return null;
  if (manifest.scripts.build === undefined || hasFunctions(place)) return null;
  if (settings.build_command !== null || settings.output_directory !== null) return null;
  const config = configText(place, framework.config);
  if (!framework.isServer(config ?? '')) return null;
  const files = config === null ? (framework.files ?? {}) : {};
  const ownCommand = 'npx wrangler setup';
  // The adapter's set-up of SvelteKit makes its build check these types, and does not write them.
  const wrangler = framework.name === 'SvelteKit' ? [SETUP, ['types']] : [SETUP];
  return { framework: framework.name, ownCommand, files, packages: [], wrangler };
}
