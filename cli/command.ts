// A command as data, from which its parser, help, documentation and completion are generated.
import { readFileSync } from 'node:fs';
import type { OperationName, Result } from '../handlers/contract/index.ts';
import { Stopped } from './exit.ts';
import type { Session } from './session.ts';

export interface Argument {
  name: string;
  summary: string;
  optional?: true;
  choices?: readonly string[];
}

export interface Option {
  /** In the form that help shows, such as `-n, --lines <n>`. */
  flags: string;
  summary: string;
  choices?: readonly string[];
}

/** The values of a command line, by argument or option. The key of an option is its long flag, in camel case. */
export type Input = Readonly<Record<string, string | boolean | undefined>>;

/** One command. `Value` is its answer, which `--json` prints unchanged. */
export interface Command<Value = unknown> {
  /** The words that call it, such as `env set`. */
  words: string;
  summary: string;
  /** Whether it is about an app: then it has `--app`. */
  ofApp?: true;
  arguments?: readonly Argument[];
  options?: readonly Option[];
  /** Command lines, without `cellar`. */
  examples: readonly string[];
  /** The operation whose answer it returns; null for a command that prints text. */
  answers: OperationName | null;
  /** The operation whose events it prints with `--follow`, one per line. */
  follows?: OperationName;
  /** Returns the question to confirm, unless `--yes` or `--dry-run` is given. Without a terminal, the command then fails. */
  destroys?: (input: Input, session: Session) => string | Promise<string>;
  run: (session: Session, input: Input) => Promise<Value>;
  /** Formats the answer for people. Default: prints nothing. */
  show?: (value: Value, session: Session) => string | Promise<string>;
}

/** Declares a command that returns the answer of an operation. */
export function command<Name extends OperationName>(
  declared: Command<Result<Name>> & { answers: Name },
): Command {
  return declared as unknown as Command;
}

/** Declares a command that prints text. */
export function textCommand(declared: Omit<Command<string>, 'answers' | 'show'>): Command {
  return { ...declared, answers: null, show: (text: string) => text } as unknown as Command;
}

/** Returns the text of an argument or option; undefined when it is missing, or is a flag without a value. */
export function textOf(input: Input, name: string): string | undefined {
  const value = input[name];
  return typeof value === 'string' ? value : undefined;
}

/** Returns the text of a file. @throws {Stopped} when it cannot be read */
export function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    throw new Stopped('usage', `${file} cannot be read.`);
  }
}

/** `json`: for commands with an API answer. `app`: for commands about an app. `yes`: for commands that ask first. */
export const sharedOptions = {
  json: { flags: '--json', summary: "print the API's answer as JSON" },
  app: { flags: '-a, --app <app>', summary: "the app; by default that of the folder's git remote `cellar`" },
  yes: { flags: '-y, --yes', summary: 'do not ask for confirmation' },
} as const;

export function optionsOf(command: Command): readonly Option[] {
  return [
    ...(command.options ?? []),
    ...(command.ofApp ? [sharedOptions.app] : []),
    ...(command.destroys ? [sharedOptions.yes] : []),
    ...(command.answers !== null ? [sharedOptions.json] : []),
  ];
}
