// One project that `npm run frameworks` deploys: how it comes about, and what it must answer.

/** A request to the deployed app and what its answer must be. */
export interface Check {
  path: string;
  status?: number;
  /** The body matches. */
  text: RegExp;
  /** A script asks for it, not a browser that goes there. */
  byScript?: true;
}

export interface FrameworkProject {
  name: string;
  /** A public repository that has it. */
  repository?: { url: string; commit: string };
  /** The package that generates it, in its newest version; left out: it is written by hand. */
  generator?: string;
  /** The words after the generator's name; it makes the project in the folder `app`. */
  words?: string;
  /** The project as its framework's documentation sets one up by hand, also for a generator whose templates are on GitHub. */
  byHand?: Record<string, string>;
  /** Commands of its author, run when its packages are installed. */
  afterwards?: string[];
  /** Files that its author adds or changes then. */
  files?: Record<string, string>;
  /** Whose lock file is committed. */
  manager: 'npm' | 'pnpm' | 'yarn' | 'bun' | 'none';
  /** What its author sets with `builds.set`. */
  settings?: Record<string, string>;
  checks: Check[];
  /** Also fetch every script and style sheet that the page at `/` names. */
  assets: boolean;
  /** It cannot run here: what its author must read. */
  refused?: RegExp;
}

export const GITIGNORE =
  'node_modules\ndist\n.wrangler\n.astro\n.react-router\nbuild\n.open-next\n.turbo\n.vinxi\n.output\n';
export const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
