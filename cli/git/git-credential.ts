// A credential helper for git. `cellar login` or `cellar init` installs it. Git then runs it to get the API key.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { type Command, textCommand } from '../command.ts';
import { type Environment, savedLogin } from '../login-file.ts';
import type { Place } from '../session.ts';

export const gitCredentialCommand: Command = textCommand({
  words: 'git-credential',
  summary: 'Gives git the API key that `cellar login` saved; only git calls this command',
  arguments: [
    { name: 'operation', summary: 'the action that git asks for', choices: ['get', 'store', 'erase'] },
  ],
  examples: ['git-credential get'],
  run: async ({ place }, { operation }) =>
    operation === 'get' ? answer(await place.input(), place.env) : '',
});

/** Returns the user and the key in git's format; empty if git asks for another server, or the login has no API key. */
function answer(asked: string, env: Environment): string {
  const saved = savedLogin(env);
  const { protocol, host } = Object.fromEntries(
    asked.split('\n').map((line) => {
      const at = line.indexOf('=');
      return [line.slice(0, at), line.slice(at + 1)];
    }),
  );
  if (!saved?.git || saved.git !== `${protocol}://${host}` || !isKey(saved.token)) return '';
  return `username=git\npassword=${saved.token}\n`;
}

/** Whether a token is an API key. The git server accepts API keys, but not the runner token. */
export function isKey(token: string): boolean {
  return token.startsWith('cellar_');
}

/**
 * Makes git ask `cellar git-credential` for the key of one server. Changes git's global configuration of the user.
 * @param git the server's origin, such as `https://git.apps.example.com`
 * @returns false when git is missing, or its configuration cannot be written
 */
export function installHelper({ env, root }: Place, git: string): boolean {
  const program = join(root, 'cli', 'cellar').replaceAll("'", "'\\''");
  const words = ['config', '--global', '--replace-all', `credential.${git}.helper`];
  try {
    execFileSync('git', [...words, `!'${program}' git-credential`], { env: { ...env }, stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Returns the git server's origin `https://git.<base>` for an API at `https://api.<base>`; null for other addresses. */
export function gitBeside(api: string): string | null {
  const { protocol, host } = new URL(api);
  return host.startsWith('api.') ? `${protocol}//git.${host.slice('api.'.length)}` : null;
}
