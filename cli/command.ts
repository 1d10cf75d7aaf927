// What a command is: data, of which its parser, help, documentation and completion are made.
import type { OperationName, Result } from '../handlers/contract/index.ts';
import type { Session } from './session.ts';

export interface Argument {
  name: string;
  summary: string;
  optional?: true;
  choices?: readonly string[];
}

export interface Option {
  /** As help shows it, such as `-n, --lines <n>`. */
  flags: string;
  summary: string;
  choices?: readonly string[];
}

/** The arguments and options of a call. Arguments have their own names; options that of their long flag, in camel case. */
export type Input = Readonly<Record<string, string | boolean | undefined>>;

/** One command. `Value` is its answer, which `--json` prints unchanged. */
export interface Command<Value = unknown> {
  /** The words that call it, such as `env set`. */
  words: string;
  summary: string;
  /** Whether it is about an app: it has `--app` then. */
  ofApp?: true;
  arguments?: readonly Argument[];
  options?: readonly Option[];
  /** Lines to type, without `cellar` before them. */
  examples: readonly string[];
  /** The operation whose answer it gives; null for a command that prints text. */
  answers: OperationName | null;
  /** The operation whose events it prints, one a line, when `--follow` is given. */
  follows?: OperationName;
  /** What a person is asked before it is done; without a terminal it needs `--yes`. */
  destroys?: (input: Input, session: Session) => string;
  run: (session: Session, input: Input) => Promise<Value>;
  /** The answer as people read it. Default: nothing, for what has said everything already. */
  show?: (value: Value, session: Session) => string | Promise<string>;
}

/** Declares a command that gives the answer of an operation. */
export function command<Name extends OperationName>(
  declared: Command<Result<Name>> & { answers: Name },
): Command {
  return declared as unknown as Command;
}

/** Declares a command that prints text. */
export function textCommand(declared: Omit<Command<string>, 'answers' | 'show'>): Command {
  return { ...declared, answers: null, show: (text: string) => text } as unknown as Command;
}

/** The text of an argument or option. */
export function textOf(input: Input, name: string): string | undefined {
  const value = input[name];
  return typeof value === 'string' ? value : undefined;
}

/** What comes with every command that prints data, and with those that are about an app or destroy something. */
export const sharedOptions = {
  json: { flags: '--json', summary: "print the API's answer as JSON" },
  app: { flags: '-a, --app <app>', summary: "the app; by default that of the folder's git remote `cellar`" },
  yes: { flags: '-y, --yes', summary: 'do not ask' },
} as const;

/** All options of a command. */
export function optionsOf(command: Command): readonly Option[] {
  return [
    ...(command.options ?? []),
    ...(command.ofApp ? [sharedOptions.app] : []),
    ...(command.destroys ? [sharedOptions.yes] : []),
    ...(command.answers !== null ? [sharedOptions.json] : []),
  ];
}
