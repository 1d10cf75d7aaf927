// Finds the folder that the root's deploy script deploys, as in `cd web && wrangler deploy` or `npm run deploy -w web`.
import { certainSteps, joined } from './deploy-script.ts';
import { enteredFolder } from './shell.ts';

/** The flags that name a folder or a package, for each program that runs scripts of packages. */
const FLAGS: Record<string, string[]> = {
  npm: ['-w', '--workspace', '--prefix', '-C'],
  pnpm: ['--filter', '-F', '--dir', '-C'],
  yarn: ['--cwd'],
  bun: ['--filter', '-F', '--cwd'],
  turbo: ['--filter', '-F', '--cwd'],
  nx: ['-p', '--project', '--projects'],
  lerna: ['--scope'],
  wrangler: ['--cwd'],
};
const DEPLOYS = /^(?:[\w-]+:)*(?:deploy|publish)(?::[\w-]+)*$/;

/** What a script deploys: a folder that it enters, or a folder or package in a program's arguments. */
export interface DeployFolder {
  script: string;
  named: string;
  isEntered: boolean;
  /** The script's commands in a folder that it enters, if it calls Wrangler itself there. */
  line: string | null;
  /** The script's commands in the root before that, as a shell line; `null`: none. */
  before: string | null;
}

/** Returns the folder that the root's deploy script names; `null` when it deploys the root, or names nothing. */
export function deployFolder(scripts: Record<string, string>): DeployFolder | null {
  for (const { script, steps } of certainSteps(scripts)) {
    let folder = '.';
    let first = 0;
    const firstEntry = steps.findIndex(({ words }) => words[0] === 'cd');
    const before = (end: number) =>
      joined(steps.slice(0, end).filter(({ kind }) => kind === 'other')) || null;
    for (const [i, { kind, words }] of steps.entries()) {
      const [program, path] = words;
      if (program === 'cd') {
        folder = enteredFolder(folder, path);
        first = i + 1;
      }
      const asked = askedFor(words);
      // The folder of Wrangler's `--cwd` may not exist yet, because a build usually writes it. So it counts as entered.
      if (asked?.named)
        return { script, named: asked.named, isEntered: kind === 'deploy', line: null, before: before(i) };
      const isWrangler = kind === 'deploy';
      if (isWrangler && folder === '.') return null;
      if (folder === '.' || (!isWrangler && asked === null)) continue;
      const line = isWrangler ? joined(steps.slice(first, i + 1)) : null;
      return { script, named: folder, isEntered: true, line, before: before(firstEntry) };
    }
  }
  return null;
}

/** Returns the folder or package that a deploy command names, if any; `null`: the command does not deploy. */
function askedFor(words: string[]): { named: string | null } | null {
  const [program = '', ...rest] = words;
  const flags = Object.hasOwn(FLAGS, program) ? FLAGS[program] : undefined;
  if (flags === undefined) return null;
  let named: string | null = null;
  const given: string[] = [];
  for (let i = 0; i < rest.length; i++) {
    const word = rest[i]!;
    const [flag, value] = word.split(/=(.*)/s) as [string, string?];
    if (flags.includes(flag)) named = value ?? rest[++i] ?? null;
    else if (!word.startsWith('-')) given.push(word);
  }
  if (program === 'yarn' && given[0] === 'workspace') [, named = null] = given.splice(0, 2);
  if (given[0] === 'run' || given[0] === 'run-script') given.shift();
  if (program === 'nx') {
    const [project, target] = given[0]?.split(':') ?? [];
    if (target !== undefined) return DEPLOYS.test(target) ? { named: project! } : null;
    named ??= given[1] ?? null;
  }
  if (program === 'wrangler' && given[0] === 'pages') given.shift();
  // The result lacks the dots of a filter such as `web...`, which also selects the package's dependencies.
  if (!DEPLOYS.test(given[0] ?? '')) return null;
  return { named: named?.replace(/^\.\.\.|\.\.\.$|^\{|\}$/g, '') ?? null };
}
