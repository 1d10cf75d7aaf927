// Splits a deploy script of package.json into the build (the commands before Wrangler) and the call of Wrangler.
import { posix } from 'node:path';
import { enteredFolder, groupIn, type ShellStep, shellSteps } from './shell.ts';
import { type CommandKind, commandKind, type DeployCall, readCall } from './wrangler-call.ts';

/** How a project's author deploys it. */
export interface DeployScript {
  call: DeployCall;
  /** Whether the script `build` runs before all other commands. */
  startsWithBuild: boolean;
  /** Whether the words of a command before Wrangler show that it builds. */
  builds: boolean;
  /** One shell line with the other commands before Wrangler; `null` without such commands. */
  before: string | null;
  /** Whether `before` is one command whose words do not show that it builds. */
  isOneBefore: boolean;
  /** Commands that are not run: they need an account of Cloudflare, deploy another Worker, or come after Wrangler. */
  notRun: string[];
}

type Scripts = Record<string, string>;

/** A step of a script, or of a script that it calls. */
export interface Step {
  kind: CommandKind;
  text: string;
  joint: ShellStep['joint'];
  /** The words of the command that deploys or needs an account, else of the first; without variables, `npx` and the like. */
  words: string[];
  /** The script of the project that this step runs; `null` when it runs something else, or more. */
  script: string | null;
  /** The folder that was entered before, relative to the project's folder. */
  folder: string;
}

/** Names of scripts that deploy to production, in order of preference. */
const CERTAIN = [
  /^(?:deploy|publish)$/,
  /^(?:cf|cloudflare|workers?|pages):deploy$|^deploy:(?:cf|cloudflare|workers?|pages|prod(?:uction)?)$/,
];
/** Programs that set environment variables and run the command after `--`. */
const ENVIRONMENTS = ['dotenv', 'dotenvx', 'doppler', 'infisical', 'op', 'varlock'];
export const MANAGERS = ['npm', 'pnpm', 'yarn', 'bun'] as const;
/** Flags of a package manager that choose another package than the project. */
const ELSEWHERE = /^(?:-w|--workspaces?|--prefix|-C|--dir|--cwd|--filter|-F|-r|--recursive|-ws)(?:=|$)/;
/** Built-in commands of package managers, which no script replaces. */
const OWN = ['exec', 'dlx', 'x', 'install', 'i', 'ci', 'add', 'workspace', 'workspaces'];
/** Programs that run scripts one after another. */
const RUNNERS = ['run-s', 'npm-run-all', 'npm-run-all2'];
/** Programs whose arguments are file names or text: the word `build` does not mean that they build. */
const NOT_BUILDING = ['cd', 'cp', 'del', 'del-cli', 'echo', 'mkdir', 'mv', 'rimraf', 'rm', 'shx'];
/** Maximum depth of scripts that call each other. */
const DEPTH = 10;

function isManager(program: string | undefined): boolean {
  return MANAGERS.some((name) => name === program);
}

/** Finds the script that deploys, first by the names in `CERTAIN`; `null` if no script deploys. Runs no script. */
export function deployScript(scripts: Scripts): DeployScript | null {
  const names = Object.keys(scripts).sort((a, b) => rank(a) - rank(b));
  for (const name of names) {
    const steps = expand(scripts, name, 0);
    const isCertain = rank(name) < CERTAIN.length;
    const calls = steps.map(({ kind, words, folder }) =>
      kind === 'deploy' ? readCall(name, isCertain, words, folder) : null,
    );
    // Of several calls, those with a configuration in another folder usually deploy helpers of the app.
    const call = calls.find((each) => each && isHere(each)) ?? calls.find((each) => each !== null);
    if (!call) continue;
    const at = calls.indexOf(call);
    const before = isCertain ? steps.slice(0, at) : [];
    const run = before.filter(({ kind }) => kind === 'other');
    const startsWithBuild = run[0]?.script === 'build';
    const rest = startsWithBuild ? run.slice(1) : run;
    const after = isCertain ? steps.slice(at + 1) : [];
    return {
      call,
      startsWithBuild,
      builds: run.some((step) => buildsByName(scripts, step)),
      before: rest.length === 0 ? null : joined(rest),
      isOneBefore: rest.length === 1 && !buildsByName(scripts, rest[0]!),
      notRun: [...before.filter(({ kind }) => kind !== 'other'), ...after].map(({ text }) => text),
    };
  }
  return null;
}

function isHere({ config }: DeployCall): boolean {
  return config === null || posix.dirname(config) === '.';
}

/** Returns the scripts with a name in `CERTAIN`, with the steps of each. */
export function certainSteps(scripts: Scripts): { script: string; steps: Step[] }[] {
  return Object.keys(scripts)
    .filter((name) => rank(name) < CERTAIN.length)
    .sort((a, b) => rank(a) - rank(b))
    .map((script) => ({ script, steps: expand(scripts, script, 0) }));
}

function rank(name: string): number {
  const certain = CERTAIN.findIndex((pattern) => pattern.test(name));
  if (certain >= 0) return certain;
  return CERTAIN.length + (/^(?:deploy|publish)/.test(name) ? 0 : 1);
}

/** Joins steps to one line for the shell. */
export function joined(steps: Step[]): string {
  return steps
    .map(({ text, joint }, i) =>
      i === steps.length - 1 ? text : `${text}${joint === '&&' ? ' ' : ''}${joint || ' &&'} `,
    )
    .join('');
}

/** Whether a command, or a script that it runs, has a word such as `build` or `build:css`. */
function buildsByName(scripts: Scripts, { text, script }: Step): boolean {
  const lines = script === null ? [text] : [text, scripts[script]!];
  return lines
    .flatMap(shellSteps)
    .flatMap(({ commands }) => commands)
    .some(
      (command) =>
        !NOT_BUILDING.includes(calledBy(scripts, command).words[0] ?? '') &&
        /(?:^|[\s:/-])(?:build|generate|compile|bundle)(?:$|[\s:;&])/.test(command.join(' ')),
    );
}

/**
 * Returns the steps of the scripts `pre<name>`, `<name>` and `post<name>`. Expands a called script that deploys or needs an
 * account.
 */
function expand(scripts: Scripts, name: string, depth: number, more: string[] = []): Step[] {
  return [`pre${name}`, name, `post${name}`].flatMap((each) =>
    Object.hasOwn(scripts, each)
      ? inTurn(scripts, withMore(shellSteps(scripts[each]!), each === name ? more : []), depth, '.')
      : [],
  );
}

/** Adds arguments to the last command, as package managers do. */
function withMore(steps: ShellStep[], more: string[]): ShellStep[] {
  const last = steps.at(-1);
  if (more.length === 0 || last === undefined) return steps;
  const commands = [...last.commands.slice(0, -1), [...last.commands.at(-1)!, ...more]];
  return [...steps.slice(0, -1), { ...last, text: [last.text, ...more].join(' '), commands }];
}

/** Returns the steps of a line that begins in `folder`. A called script or a group leaves the line's folder as it is. */
function inTurn(scripts: Scripts, steps: ShellStep[], depth: number, folder: string): Step[] {
  let at = folder;
  return steps.flatMap((step) => {
    const found = stepsOf(scripts, step, depth, at);
    const [program, path] = step.commands[0] ?? [];
    if (program === 'cd' && groupIn(step.text) === null) at = enteredFolder(at, path);
    return found;
  });
}

function stepsOf(
  scripts: Scripts,
  { text, commands, joint }: ShellStep,
  depth: number,
  folder: string,
): Step[] {
  const group = groupIn(text);
  const called = commands.map((words) => calledBy(scripts, words));
  const found = called.find(({ kind }) => kind === 'deploy') ?? called.find(({ kind }) => kind === 'account');
  if (found && group === null) return [{ ...found, text, joint, script: null, folder }];
  const { words, names, more, variables } = called[0] ?? calledBy(scripts, []);
  // `script` is null for a command that also sets variables: it does more than run the script.
  const isScript = names.length === 1 && more.length === 0 && commands.length === 1;
  const script = isScript && isManager(commands[0]![0]!) ? names[0]! : null;
  const step: Step = { kind: 'other', text, joint, words, script, folder };
  if (depth === DEPTH) return [step];
  const inner =
    group === null
      ? names.flatMap((name) => expand(scripts, name, depth + 1, more))
      : inTurn(scripts, shellSteps(group), depth + 1, folder);
  if (inner.every(({ kind }) => kind === 'other')) return [step];
  const isForAccount = names.some((each) => callsAccount(scripts, each)) && !inner.some(isNeeded(scripts));
  const exported = variables.map(
    (variable): Step => ({ ...step, text: `export ${variable}`, joint: '&&', script: null }),
  );
  return [
    ...exported,
    ...inner.map((each) => ({
      ...each,
      kind: isForAccount ? ('account' as const) : each.kind,
      joint: each.joint || ('&&' as const),
    })),
  ];
}

/** Whether a script itself calls a command that needs an account. Its other commands usually prepare that command. */
function callsAccount(scripts: Scripts, name: string): boolean {
  return shellSteps(scripts[name]!).some(({ commands }) =>
    commands.some((words) => calledBy(scripts, words).kind === 'account'),
  );
}

/** Returns whether a deploy needs a step: it deploys, is no call of another script, or calls a script that builds. */
function isNeeded(scripts: Scripts): (step: Step) => boolean {
  return (step) =>
    step.kind === 'deploy' ||
    (step.kind === 'other' && (step.script === null || buildsByName(scripts, step)));
}

interface Called {
  kind: CommandKind;
  /** The words from the program on, without `npx` and the like. */
  words: string[];
  /** The project's scripts that the command runs, in order. */
  names: string[];
  /** Arguments for the script, if the command runs only one. */
  more: string[];
  /** Variables that the command sets for its program, such as `A=b`. */
  variables: string[];
}

/** Finds the program that a command runs after variables, `npx` and the like, and the scripts that it runs. */
function calledBy(scripts: Scripts, command: string[]): Called {
  const variables: string[] = [];
  let words = command;
  for (;;) {
    const [program = '', second = ''] = words;
    if (/^\w+=/.test(program)) variables.push(program);
    else if (ENVIRONMENTS.includes(program) && words.includes('--')) {
      words = words.slice(words.indexOf('--') + 1);
      continue;
    } else if (['npx', 'bunx', 'pnpx'].includes(program)) {
      words = withoutFlags(words.slice(1));
      continue;
    } else if (isManager(program) && ['exec', 'dlx', 'x'].includes(second)) {
      words = withoutFlags(words.slice(2));
      continue;
    } else if (program === 'node' && /wrangler(?:\/bin\/wrangler\.js)?$/.test(second)) {
      words = ['wrangler', ...words.slice(2)];
      continue;
    } else if (!['env', 'cross-env', 'cross-env-shell', 'exec', 'time', 'sudo'].includes(program)) break;
    words = words.slice(1);
  }
  const { names, more, program } = scriptsRun(scripts, words);
  return { kind: commandKind(program), words: program, names, more, variables };
}

/** Returns what a command runs: scripts of the project, or a program. */
function scriptsRun(
  scripts: Scripts,
  words: string[],
): { names: string[]; more: string[]; program: string[] } {
  const [manager = '', ...rest] = words;
  const none = { names: [], more: [], program: words };
  if (RUNNERS.includes(manager)) {
    const names = rest.filter((word) => !word.startsWith('-'));
    return names.every((name) => Object.hasOwn(scripts, name)) ? { ...none, names } : none;
  }
  const isNode = manager === 'node' && rest[0] === '--run';
  if ((!isManager(manager) && !isNode) || rest.some((word) => ELSEWHERE.test(word))) return none;
  const given = withoutFlags(rest);
  const runs = isNode || /^(?:run|run-script)$/.test(given[0] ?? '');
  const [name = '', ...more] = runs && !isNode ? withoutFlags(given.slice(1)) : given;
  const isShort = manager === 'npm' ? ['test', 'start'].includes(name) : !OWN.includes(name);
  if (!runs && !isShort) return none;
  if (manager === 'bun' && !runs && ['build', 'test'].includes(name)) return none;
  if (Object.hasOwn(scripts, name))
    return { ...none, names: [name], more: more.filter((word) => word !== '--') };
  return manager === 'npm' ? none : { ...none, program: [name, ...more] };
}

/** Removes the leading flags, and the values of `-p` and `--package`. */
function withoutFlags(words: string[]): string[] {
  const at = words.findIndex(
    (word, i) => !word.startsWith('-') && !/^(?:-p|--package)$/.test(words[i - 1] ?? ''),
  );
  return at < 0 ? [] : words.slice(at);
}
