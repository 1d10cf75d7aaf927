// Parses a call of Wrangler, or of a tool that calls it.
import { posix } from 'node:path';
import { enteredFolder } from './shell.ts';

/**
 * The arguments of `wrangler deploy` or `wrangler pages deploy` that select what to deploy. Paths start at the project's
 * folder.
 */
export interface DeployCall {
  script: string;
  /** Whether the script's name shows that it deploys to production. Another script may deploy a trial version. */
  isCertain: boolean;
  /** The folder in which Wrangler runs: the script entered it, or `--cwd` names it. */
  folder: string;
  main: string | null;
  /** The folder of a Pages project. */
  pages: string | null;
  config: string | null;
  environment: string | null;
  /** The Worker's name, by which its own bindings name it; `null` for a Pages project. */
  name: string | null;
  assets: string | null;
  compatibilityDate: string | null;
  compatibilityFlags: string[];
  minify: boolean | null;
  tsconfig: string | null;
  jsxFactory: string | null;
  jsxFragment: string | null;
  vars: Record<string, string>;
  define: Record<string, string>;
  alias: Record<string, string>;
  /** `--var`, `--define` and `--alias` whose values only a shell knows, such as `--var COMMIT:$COMMIT`. */
  leftOut: string[];
}

/** Flags of `wrangler deploy` and `wrangler pages deploy` that take the next word as their value. */
const WITH_VALUE = new Set(
  `c config e env name assets compatibility-date compatibility-flag compatibility-flags var define alias triggers
  schedule schedules route routes domain domains site site-include site-exclude jsx-factory jsx-fragment tsconfig outdir
  outfile tag message dispatch-namespace cwd env-file containers-rollout secrets-file metafile project-name branch
  commit-hash commit-message cacheChunkSize old-asset-ttl profile zone zones zone-id zone-ids
  durable-objects-code-update-mode`.split(/\s+/),
);
const DEPLOYS = /^(?:deploy|publish)$/;
/** Matches commands of Wrangler that need no account. Some of them write files for a build. */
const LOCAL = /^(?:types|build|check|telemetry|docs|pages functions build)\b/;
const PROGRAM = /^(?:.*\/)?wrangler(?:@\S+)?$/;
const OPEN_NEXT = /^(?:.*\/)?(?:opennextjs-cloudflare|@opennextjs\/cloudflare)(?:@\S+)?$/;

/** `deploy`: it deploys. `account`: it needs a Cloudflare account. `other`: it can run in a build. */
export type CommandKind = 'deploy' | 'account' | 'other';

/** Sorts a command by its program and words. @param words from the program on */
export function commandKind(words: string[]): CommandKind {
  const [program = ''] = words;
  const { given, flags } = parse(words.slice(1));
  if (OPEN_NEXT.test(program)) {
    if (/^(?:deploy|upload)$/.test(given[0] ?? '')) return 'deploy';
    return given[0] === 'populateCache' ? 'account' : 'other';
  }
  if (!PROGRAM.test(program) || given.length === 0) return 'other';
  if (isOn(flags, 'dry-run') || LOCAL.test(given.join(' '))) return 'other';
  const deploys = given[0] === 'pages' ? given[1] : given[0];
  return DEPLOYS.test(deploys ?? '') ? 'deploy' : 'account';
}

/**
 * Reads a command of the kind `deploy`.
 * @param words from the program on
 * @param entered the folder that the script has entered before the command, relative to the project's folder
 */
export function readCall(script: string, isCertain: boolean, words: string[], entered: string): DeployCall {
  const { given, flags } = parse(words.slice(1));
  const isPages = given[0] === 'pages';
  // Ignores a value with a variable or a command in it, because only the shell knows the result.
  const known = (text: string | undefined) => (text === undefined || /[$`]/.test(text) ? null : text);
  const one = (...names: string[]) => known(names.flatMap((name) => flags.get(name) ?? [])[0]);
  const pairs = (name: string) =>
    Object.fromEntries((flags.get(name) ?? []).filter((text) => known(text) !== null).map(pairOf));
  const isOpenNext = OPEN_NEXT.test(words[0]!);
  const folder = enteredFolder(entered, one('cwd') ?? '.');
  const from = (path: string | null) =>
    path === null || folder === '.' || posix.isAbsolute(path) ? path : posix.join(folder, path);
  return {
    script,
    isCertain,
    folder,
    main: isPages || isOpenNext ? null : from(known(given[1])),
    pages: isPages ? from(known(given[2] ?? flags.get('directory')?.[0])) : null,
    config: from(one('config', 'c')),
    environment: isCertain ? one('env', 'e') : null,
    name: isPages ? null : one('name'),
    assets: isPages ? null : from(one('assets')),
    compatibilityDate: one('compatibility-date'),
    compatibilityFlags: ['compatibility-flag', 'compatibility-flags'].flatMap(
      (name) => flags.get(name) ?? [],
    ),
    minify: isOn(flags, 'minify'),
    tsconfig: from(one('tsconfig')),
    jsxFactory: one('jsx-factory'),
    jsxFragment: one('jsx-fragment'),
    vars: pairs('var'),
    define: pairs('define'),
    alias: pairs('alias'),
    leftOut: ['var', 'define', 'alias'].flatMap((name) =>
      (flags.get(name) ?? []).filter((text) => known(text) === null).map((text) => `--${name} ${text}`),
    ),
  };
}

/** Splits `NAME:value`. */
function pairOf(text: string): [string, string] {
  const colon = text.indexOf(':');
  return colon < 0 ? [text, ''] : [text.slice(0, colon), text.slice(colon + 1)];
}

/** Values of flags by their names. A flag without a value has an empty list. */
type Flags = Map<string, string[]>;

/** Whether a flag without a value, or with `true` or `false`, is on; `null` without the flag. */
function isOn(flags: Flags, name: string): boolean | null {
  const values = flags.get(name);
  return values === undefined ? null : values.at(-1) !== 'false';
}

/** Splits words into positional arguments and values of flags. */
function parse(words: string[]): { given: string[]; flags: Flags } {
  const given: string[] = [];
  const flags: Flags = new Map();
  const redirected = words.findIndex((word) => /^\d*[<>&]/.test(word));
  const queue = words.slice(0, redirected < 0 ? undefined : redirected).filter((word) => word !== '--');
  for (let word = queue.shift(); word !== undefined; word = queue.shift()) {
    const [, name, value] = /^--?([\w-]+)(?:=(.*))?$/.exec(word) ?? [];
    if (name === undefined) given.push(word);
    else {
      const isValue = WITH_VALUE.has(name)
        ? !queue[0]?.startsWith('-')
        : /^(?:true|false)$/.test(queue[0] ?? '');
      const said = value ?? (isValue ? queue.shift() : undefined);
      flags.set(name, [...(flags.get(name) ?? []), ...(said === undefined ? [] : [said])]);
    }
  }
  return { given, flags };
}
