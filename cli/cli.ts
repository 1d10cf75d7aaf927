// Runs a command line: finds the command, runs it, prints its answer, and returns the exit code.
import { constants } from 'node:os';
import { addAbortSignal } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { CommanderError, Command as Parser, Option as ParserOption } from 'commander';
import { CellarClient } from '../client/index.ts';
import { CLI_AGENT } from '../handlers/contract/people/audit.ts';
import { type Command, type Input, optionsOf } from './command.ts';
import { commands } from './commands.ts';
import { exits, Stopped, stoppedBy, typed } from './exit.ts';
import { findLogin, type Login } from './login-file.ts';
import { type Client, type Place, Session } from './session.ts';

/** Added to the number of a signal to get the exit code, as in shells. */
const SIGNAL_EXIT_BASE = 128;
const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** Runs a command line with the streams and the environment of this process. @returns the exit code */
export async function main(words: readonly string[]): Promise<number> {
  const interrupt = new AbortController();
  const { signal } = interrupt;
  let killed: number | null = null;
  process.once('SIGINT', () => interrupt.abort());
  for (const name of ['SIGTERM', 'SIGHUP'] as const)
    process.once(name, () => {
      killed = SIGNAL_EXIT_BASE + constants.signals[name];
      interrupt.abort();
    });
  // A failed write must not end the process: after a hangup no one reads the messages, but the command must still clean up.
  process.stderr.on('error', () => {});
  // A reader such as `head` may close the pipe early. That is no failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(exits.done.code);
    // The terminal was closed. Its SIGHUP may come later, or not at all.
    if (error.code !== 'EIO') throw error;
    interrupt.abort();
  });
  const code = await run(words, {
    folder: process.cwd(),
    root: ROOT,
    env: process.env,
    isTerminal: process.stdin.isTTY === true && process.stdout.isTTY === true,
    out: (text) => process.stdout.write(text),
    say: (text) => process.stderr.write(text),
    input: async () => Buffer.concat(await addAbortSignal(signal, process.stdin).toArray()).toString('utf8'),
    signal,
  });
  return killed ?? code;
}

/**
 * Runs one command line.
 * @param connect creates the client that commands use
 * @returns the exit code
 */
export async function run(
  words: readonly string[],
  place: Place,
  connect: (login: Login) => Client = (login) => new CellarClient({ ...login, agent: CLI_AGENT }),
): Promise<number> {
  const login = () => findLogin(place.env, place.root);
  let running: Command | null = null;
  /** URL of the Cellar that was called last. */
  let called: string | null = null;
  const connecting = (to: Login) => {
    called = to.url;
    return connect(to);
  };
  const perform = async (command: Command, input: Input) => {
    running = command;
    const json = input.json === true;
    const app = typeof input.app === 'string' ? input.app : undefined;
    const session = new Session({ place, json, app, login, connect: connecting });
    if (command.destroys && input.yes !== true && input.dryRun !== true)
      await confirm(place, await command.destroys(input, session), words);
    const value = await command.run(session, input);
    if (json) {
      if (input.follow !== true) place.out(`${JSON.stringify(value, null, 2)}\n`);
      return;
    }
    const text = (await command.show?.(value, session)) ?? '';
    if (text !== '') place.out(text.endsWith('\n') ? text : `${text}\n`);
  };
  try {
    await parser(place, perform).parseAsync(whole(words), { from: 'user' });
    return exits.done.code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exits.done.code : exits.usage.code;
    if (place.signal.aborted) return exits.failed.code;
    const stopped = stoppedBy(error, running, called);
    place.say(`cellar: ${stopped.message}\n${stopped.next === null ? '' : `Next: ${stopped.next}\n`}`);
    return exits[stopped.exit].code;
  }
}

export function parser(place: Place, perform: (command: Command, input: Input) => Promise<void>): Parser {
  const top = new Parser('cellar').description('Controls a Cellar: deploys and manages apps.');
  const output = { writeOut: place.out, writeErr: place.say };
  top.option('--version', 'print the version');
  // Subcommands inherit these settings.
  top.configureOutput(output).exitOverride().showHelpAfterError('Next: cellar help');
  const groups = new Map<string, Parser>();
  for (const command of commands) {
    const [first, second] = command.words.split(' ') as [string, string?];
    if (second === undefined) {
      add(top, first, command);
      continue;
    }
    const group = groups.get(first) ?? top.command(first).description(command.summary);
    groups.set(first, group.showHelpAfterError(`Next: cellar ${first} --help`));
    add(group, second, command);
  }
  return top;

  function add(to: Parser, word: string, command: Command): void {
    const made = to.command(word).summary(command.summary).description(`${command.summary}.`);
    made.showHelpAfterError(`Next: cellar ${command.words} --help`);
    for (const { name, summary, optional, choices } of command.arguments ?? []) {
      const argument = made.createArgument(optional ? `[${name}]` : `<${name}>`, summary);
      made.addArgument(choices ? argument.choices([...choices]) : argument);
    }
    for (const { flags, summary, choices } of optionsOf(command)) {
      const option = new ParserOption(flags, summary);
      made.addOption(choices ? option.choices([...choices]) : option);
    }
    made.addHelpText(
      'after',
      `\nExamples:\n${command.examples.map((line) => `  cellar ${line}`).join('\n')}`,
    );
    made.action(async () => {
      const names = (command.arguments ?? []).map(({ name }) => name);
      const given = names.map((name, n) => [name, made.processedArgs[n] as string | undefined] as const);
      await perform(command, { ...Object.fromEntries(given), ...made.opts() });
    });
  }
}

/** Adds a missing second word: `cellar env` means `cellar env list`, and `cellar limits` means `cellar limits get`. */
function whole(words: readonly string[]): string[] {
  const [first = '', second = '-'] = words;
  const named = ['list', 'get'].find((word) => commands.some((each) => each.words === `${first} ${word}`));
  if (named === undefined || !second.startsWith('-') || ['-h', '--help'].includes(second)) return [...words];
  return [first, named, ...words.slice(1)];
}

async function confirm(place: Place, question: string, words: readonly string[]): Promise<void> {
  if (!place.isTerminal)
    throw new Stopped(
      'unconfirmed',
      `${question} There is no terminal to confirm this, so nothing was done.`,
      `cellar ${words.map(typed).join(' ')} --yes`,
    );
  const { askYes } = await import('./ask.ts');
  if (!(await askYes(question, place.signal))) throw new Stopped('unconfirmed', 'Nothing was done.');
}
