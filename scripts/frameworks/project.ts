// A project of `npm run frameworks`: how it is created, and which answers it must give.

/** A request to the deployed app, and the expected answer. */
export interface Check {
  path: string;
  status?: number;
  /** Must match the body. */
  text: RegExp;
  /** The request comes from a script, not from a navigation. */
  byScript?: true;
}

export interface FrameworkProject {
  name: string;
  /** The project's public repository. */
  repository?: { url: string; commit: string };
  /** npm package of the generator, at its newest version; left out: the project is written by hand. */
  generator?: string;
  /** Arguments of the generator. It creates the project in the folder `app`. */
  words?: string;
  /** The project's files by path, for a project without a generator, or when the generator cannot reach GitHub. */
  byHand?: Record<string, string>;
  /** Commands that run after the packages are installed. */
  afterwards?: string[];
  /** Files that are added or changed after those commands. */
  files?: Record<string, string>;
  /** The package manager of the committed lock file. */
  manager: 'npm' | 'pnpm' | 'yarn' | 'bun' | 'none';
  /** Build settings for `builds.set`. */
  settings?: Record<string, string>;
  checks: Check[];
  /** A program of the project that uses the deployed app, with the project's packages. It must exit with 0. */
  client?: string;
  /** Also fetches every script and style sheet of the page at `/`. */
  assets: boolean;
  /** The expected error message of a project that Cellar cannot run. */
  refused?: RegExp;
}

/** Maximum projects in one run. */
export const MAX_PROJECTS = 200;
export const GITIGNORE =
  'node_modules\ndist\n.wrangler\n.astro\n.react-router\nbuild\n.open-next\n.turbo\n.vinxi\n.output\n';
export const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
export const packageJson = (fields: object): string =>
  json({ name: 'app', private: true, type: 'module', ...fields });
