// Exit codes of `cellar`, and the command to suggest after an error.
import { Refused, UnexpectedAnswer } from '../client/index.ts';
import type { ErrorCode } from '../handlers/contract/errors.ts';

/** All exit codes, with their meaning. docs/cli.md is made from this table. */
export const exits = {
  done: { code: 0, meaning: 'The command succeeded.' },
  failed: {
    code: 1,
    meaning: 'The command failed, such as a deploy that did not go live or a push that was refused.',
  },
  usage: { code: 2, meaning: 'The command line is wrong, or the API refused an argument.' },
  signIn: { code: 3, meaning: 'There is no token, or the API refuses it.' },
  notFound: { code: 4, meaning: 'The named app, deploy or other thing does not exist.' },
  forbidden: { code: 5, meaning: 'The token lacks the permission, or a quota is used up.' },
  conflict: {
    code: 6,
    meaning: 'The command conflicts with the current state, such as a name that is taken.',
  },
  unavailable: { code: 7, meaning: 'The API cannot be reached, or failed.' },
  unconfirmed: {
    code: 8,
    meaning:
      'The command would destroy something and was not confirmed: the answer was not yes, or there was no terminal and no `--yes`.',
  },
} as const;
export type Exit = keyof typeof exits;

/** An error that ends a command, with the next step. */
export class Stopped extends Error {
  readonly exit: Exit;
  readonly next: string | null;
  /** @param next a command to type, or null */
  constructor(exit: Exit, message: string, next: string | null = null) {
    super(message);
    this.exit = exit;
    this.next = next;
  }
}

/** Commands to suggest, by error code. */
const nextCommands: Partial<Record<ErrorCode, string>> = {
  unauthorized: 'cellar login',
  quota_exceeded: 'cellar list',
  app_not_found: 'cellar list',
  slug_taken: 'cellar list',
  deploy_not_found: 'cellar deploys',
  split_impossible: 'cellar split',
  deploy_failed: 'cellar deploys log',
  preview_not_found: 'cellar previews',
  release_unavailable: 'cellar deploys',
  env_not_found: 'cellar env list',
  var_not_found: 'cellar vars list',
  secret_not_found: 'cellar secrets list',
  domain_not_found: 'cellar domains list',
  domain_taken: 'cellar domains list',
  key_not_found: 'cellar keys list',
  account_not_found: 'cellar call accounts.list',
  collaborator_not_found: 'cellar collaborators list',
  cron_not_found: 'cellar crons',
  workflow_not_found: 'cellar workflows',
  error_not_found: 'cellar errors',
  storage_not_found: 'cellar storage list',
  snapshot_not_found: 'cellar snapshots',
  transition_conflict: 'cellar status',
  app_unavailable: 'cellar logs',
};

/** The fields of a command that the suggestion depends on. */
interface Ran {
  words: string;
  ofApp?: true;
}

/**
 * Turns an error of a command into `Stopped`. Throws unknown errors again.
 * @param command the command that ran; null when the command line named none
 * @param url the URL of the Cellar that the command called; null when it called none
 */
export function stoppedBy(error: unknown, command: Ran | null, url: string | null): Stopped {
  if (error instanceof Stopped) return error;
  if (error instanceof Refused) {
    const { status, code, detail } = error.problem;
    return new Stopped(exitOf(status), detail, nextCommands[code] ?? nextOf(status, command));
  }
  if (error instanceof UnexpectedAnswer)
    return new Stopped('unavailable', `${url} ${error.message}`, 'cellar login');
  if (error instanceof TypeError && error.cause !== undefined) {
    const cause = error.cause as Error & { code?: string };
    return new Stopped(
      'unavailable',
      `${url} cannot be reached: ${cause.code ?? cause.message}`,
      'cellar login',
    );
  }
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return new Stopped('unavailable', `${url} did not answer in time.`, 'cellar status');
  throw error;
}

function nextOf(status: number, command: Ran | null): string | null {
  if (status === 400 && command !== null) return `cellar ${command.words} --help`;
  if (status === 403) return command?.ofApp ? 'cellar collaborators list' : 'cellar login';
  return null;
}

function exitOf(status: number): Exit {
  if (status === 401) return 'signIn';
  if (status === 403) return 'forbidden';
  if (status === 404) return 'notFound';
  if (status === 409) return 'conflict';
  return status >= 500 || status === 429 ? 'unavailable' : 'usage';
}

/** Quotes a word for the shell, in a command to suggest. */
export function typed(word: string): string {
  return /^[\w./:@=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
