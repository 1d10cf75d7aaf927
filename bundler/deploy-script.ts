// What a script of package.json says to Wrangler: some projects name their Worker, or their site, in no other place.

/** A call of `wrangler deploy` or `wrangler pages deploy`, as far as it says what is deployed. Paths are as written. */
export interface DeployCall {
  /** The script's name. */
  script: string;
  /** The Worker's entry. */
  main: string | null;
  /** The folder of a Pages project. */
  pages: string | null;
  config: string | null;
  environment: string | null;
  assets: string | null;
  compatibilityDate: string | null;
  compatibilityFlags: string[];
  minify: boolean;
  vars: Record<string, string>;
}

/** Flags of both commands that have a value behind them. */
const WITH_VALUE = new Set([
  ...[
    'c',
    'config',
    'e',
    'env',
    'name',
    'assets',
    'compatibility-date',
    'compatibility-flag',
    'compatibility-flags',
  ],
  ...[
    'var',
    'define',
    'alias',
    'triggers',
    'schedule',
    'schedules',
    'route',
    'routes',
    'domain',
    'domains',
    'site',
  ],
  ...[
    'site-include',
    'site-exclude',
    'jsx-factory',
    'jsx-fragment',
    'tsconfig',
    'outdir',
    'outfile',
    'tag',
    'message',
  ],
  ...['dispatch-namespace', 'cwd', 'env-file', 'containers-rollout', 'secrets-file', 'metafile'],
  ...['project-name', 'branch', 'commit-hash', 'commit-message', 'commit-dirty'],
]);
const COMMAND = /^(?:deploy|publish)$/;

/**
 * The first call of Wrangler that deploys, in the script `deploy` or else in another. Scripts are read as words, not run.
 * @returns `null` when no call says more than a configuration would
 */
export function deployCall(scripts: Record<string, string>): DeployCall | null {
  const names = Object.keys(scripts).sort((a, b) => rank(a) - rank(b));
  for (const script of names)
    for (const words of commandsOf(scripts[script]!)) {
      const call = callOf(script, words);
      if (call !== null) return call;
    }
  return null;
}

function rank(name: string): number {
  return ['deploy', 'publish'].includes(name) ? 0 : /^(?:deploy|publish)/.test(name) ? 1 : 2;
}

/** The commands of a line for the shell, each as its words. One with a variable in it says nothing for certain. */
function commandsOf(line: string): string[][] {
  return line
    .split(/&&|\|\||[;|\n]/)
    .filter((command) => !/[$`]/.test(command))
    .map((command) =>
      [...command.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([word]) => word.replace(/["']/g, '')),
    );
}

function callOf(script: string, words: string[]): DeployCall | null {
  const at = words.findIndex((word) => /^(?:.*\/)?wrangler(?:@\S+)?$/.test(word));
  if (at < 0) return null;
  const { given, flags } = parse(words.slice(at + 1));
  const [first, second, third] = given;
  const isPages = first === 'pages' && COMMAND.test(second ?? '');
  if ((!isPages && !COMMAND.test(first ?? '')) || flags.has('dry-run')) return null;
  const one = (...names: string[]) => names.flatMap((name) => flags.get(name) ?? [])[0] ?? null;
  const call: DeployCall = {
    script,
    main: isPages ? null : (second ?? null),
    pages: isPages ? (third ?? null) : null,
    config: one('config', 'c'),
    // Another script may be for a trial.
    environment: rank(script) === 0 ? one('env', 'e') : null,
    assets: isPages ? null : one('assets'),
    compatibilityDate: one('compatibility-date'),
    compatibilityFlags: ['compatibility-flag', 'compatibility-flags'].flatMap(
      (name) => flags.get(name) ?? [],
    ),
    minify: flags.has('minify'),
    vars: Object.fromEntries((flags.get('var') ?? []).map(pairOf)),
  };
  return [call.main, call.pages, call.config, call.assets].every((value) => value === null) ? null : call;
}

/** `NAME:value` */
function pairOf(text: string): [string, string] {
  const colon = text.indexOf(':');
  return colon < 0 ? [text, ''] : [text.slice(0, colon), text.slice(colon + 1)];
}

/** Words that are given by their place, and the values of flags. */
function parse(words: string[]): { given: string[]; flags: Map<string, string[]> } {
  const given: string[] = [];
  const flags = new Map<string, string[]>();
  const queue = [...words];
  for (let word = queue.shift(); word !== undefined; word = queue.shift()) {
    const [, name, value] = /^--?([\w-]+)(?:=(.*))?$/.exec(word) ?? [];
    if (name === undefined) given.push(word);
    else {
      const said = value ?? (WITH_VALUE.has(name) && !queue[0]?.startsWith('-') ? queue.shift() : undefined);
      flags.set(name, [...(flags.get(name) ?? []), ...(said === undefined ? [] : [said])]);
    }
  }
  return { given, flags };
}
