// Projects without a Wrangler configuration whose framework renders on a server. A deploy runs `wrangler setup`, which adds
// the framework's adapter. Nuxt and SolidStart need no adapter: their builder, Nitro, detects Workers by environment
// variables.
import type { Place } from '../project/place.ts';
import { ADAPTERS, dependsOn, type PackageJson } from '../project/project.ts';
import { type Adapter, configText } from './adapter.ts';

interface ServerFramework {
  name: string;
  /** A project with one of these packages uses the framework. */
  packages: string[];
  config: RegExp;
  /** Returns whether a project renders on a server. @param config the text of its configuration; empty without one */
  isServer: (config: string) => boolean;
  /** Files, text by name, for a project without a configuration: `wrangler setup` would fail without them. */
  files?: Record<string, string>;
  /** Arguments of Wrangler's commands after `wrangler setup`. */
  afterSetup?: string[][];
}

const SETUP = ['setup', '--yes', '--no-install-wrangler', '--no-completion-message'];
const FRAMEWORKS: ServerFramework[] = [
  {
    name: 'Astro',
    packages: ['astro'],
    config: /^astro\.config\.[cm]?[jt]s$/,
    isServer: (config) => /\boutput\s*:\s*["'`](?:server|hybrid)\b/.test(config),
  },
  {
    name: 'React Router',
    packages: ['@react-router/dev'],
    config: /^react-router\.config\.[cm]?[jt]s$/,
    isServer: (config) => !/\bssr\s*:\s*false\b/.test(config),
    files: { 'react-router.config.ts': 'export default { ssr: true };\n' },
  },
  {
    name: 'SvelteKit',
    packages: ['@sveltejs/kit'],
    config: /^svelte\.config\.[cm]?[jt]s$/,
    isServer: () => true,
    // `wrangler setup` makes the project's build check generated types, but does not generate them.
    afterSetup: [['types']],
  },
  {
    name: 'TanStack Start',
    packages: ['@tanstack/react-start', '@tanstack/solid-start'],
    config: /^vite\.config\.[cm]?[jt]s$/,
    // A project that renders some pages at build time still has a server for the others.
    isServer: (config) => !/\bspa\s*:\s*\{(?![^{}]*\benabled\s*:\s*false\b)/.test(config),
  },
];
/** Returns the adapter that `wrangler setup` adds to a project; `null` when the project needs none, or has one. */
export function serverAdapter(place: Place, manifest: PackageJson): Adapter | null {
  const framework = FRAMEWORKS.find(({ packages }) => packages.some((name) => dependsOn(manifest, name)));
  if (framework === undefined || ADAPTERS.some((name) => dependsOn(manifest, name))) return null;
  if (manifest.scripts.build === undefined) return null;
  const config = configText(place, framework.config);
  if (!framework.isServer(config ?? '')) return null;
  const { name, files = {}, afterSetup = [] } = framework;
  return {
    framework: name,
    ownCommand: 'npx wrangler setup',
    files: config === null ? files : {},
    packages: [],
    wrangler: [SETUP, ...afterSetup],
  };
}
