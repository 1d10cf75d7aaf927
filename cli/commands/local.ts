// Commands for this machine: sign in, and link a folder.
import { existsSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Refused } from '../../client/index.ts';
import { slug as slugSchema } from '../../handlers/contract/apps/apps.ts';
import { type Command, command, textOf } from '../command.ts';
import { Stopped } from '../exit.ts';
import { configurationOf, isRepository, linkedSlug, namedByProject, REMOTE, readGit } from '../git/folder.ts';
import { gitBeside, installHelper, isKey } from '../git/git-credential.ts';
import { addressOf, keepLogin, ownAddress, savedLogin, tokenOf } from '../login-file.ts';
import type { Client, Session } from '../session.ts';
import { fields } from '../show.ts';

const COMPATIBILITY_DATE = '2026-10-01';
const MAINS = ['src/index.ts', 'src/index.js', 'index.ts', 'index.js'];

export const localCommands: readonly Command[] = [
  command({
    words: 'login',
    summary:
      'Saves the address of a Cellar and a token for it; git also uses the token if it is an API key. Without a terminal, the token is read from standard input',
    arguments: [
      { name: 'url', summary: "the API's address, such as https://api.apps.example.com", optional: true },
    ],
    examples: ['login', 'login https://api.apps.example.com < token'],
    answers: 'accounts.me',
    run: async (session, input) => {
      const { url, token } = await askLogin(session, textOf(input, 'url'));
      const client = session.connect({ url, token, key: null });
      const me = await session.call('accounts.me', {}, client);
      const { place } = session;
      const git = isKey(token) ? (gitBeside(url) ?? (await gitOfApps(session, client))) : null;
      place.say(`Saved in ${keepLogin(place.env, { url, token, ...(git !== null && { git }) })}\n`);
      if (git !== null && installHelper(place, git)) place.say(`git uses this key for ${git}\n`);
      else if (!isKey(token)) place.say('git needs an API key: `cellar keys create` makes one\n');
      return me;
    },
    show: ({ name, email }) =>
      fields([
        ['account', name],
        ['email', email],
      ]),
  }),
  command({
    words: 'init',
    summary:
      'Links the folder to an app, which is created if it is missing: a git remote, and a Wrangler configuration',
    arguments: [{ name: 'slug', summary: "the app; the project's name by default", optional: true }],
    options: [{ flags: '--print', summary: 'only print the commands to run, and change nothing' }],
    examples: ['init', 'init shop --print'],
    answers: 'git.remote',
    run: async (session, input) => {
      const { folder } = session.place;
      const slug = textOf(input, 'slug') ?? linkedSlug(folder) ?? namedByProject(folder) ?? basename(folder);
      const valid = slugSchema.safeParse(slug);
      if (!valid.success) {
        const { message } = valid.error.issues[0]!;
        throw new Stopped('usage', `${slug} cannot be an app's name: it ${message}.`, 'cellar init NAME');
      }
      if (input.print === true) {
        session.place.say(`${stepsOf(session, slug).join('\n')}\n`);
        return session.call('git.remote', { id: slug });
      }
      try {
        await session.call('apps.create', { slug });
        session.place.say(`Made the app ${slug}\n`);
      } catch (error) {
        if (!(error instanceof Refused) || error.problem.code !== 'slug_taken') throw error;
        // Continues only if this token may read the existing app.
        await session.call('apps.get', { id: slug });
      }
      const remote = await session.call('git.remote', { id: slug });
      link(session, slug, remote.url);
      useKeyOfLogin(session, remote.url);
      return remote;
    },
    show: ({ url }) => `${url} is the git remote ${REMOTE}. Next: cellar deploy`,
  }),
];

/** Returns the origin of the git server, from the git URL of an app; null when there is no app. */
async function gitOfApps(session: Session, client: Client): Promise<string | null> {
  const { items } = await session.call('apps.list', { limit: 1 }, client);
  return items[0] ? new URL(items[0].git_url).origin : null;
}

async function askLogin(session: Session, url: string | undefined): Promise<{ url: string; token: string }> {
  const { env, isTerminal, input, root, signal } = session.place;
  const usual = url ?? (env.CELLAR_URL || (ownAddress(env, root) ?? ''));
  const name = url === undefined && env.CELLAR_URL ? 'CELLAR_URL' : 'The address';
  if (!isTerminal) {
    const token = tokenOf(env.CELLAR_TOKEN ?? '') || tokenOf(await input());
    if (token === '') throw new Stopped('usage', 'Standard input has no token.', 'cellar login --help');
    return { url: addressOf(usual, name), token };
  }
  const { askSecret, askText } = await import('../ask.ts');
  const asked = url ?? (await askText("Address of the Cellar's API", usual, signal));
  return {
    url: addressOf(asked, 'The address'),
    token: tokenOf(await askSecret('Runner token or API key', signal)),
  };
}

/**
 * Runs `git init` in the folder, and adds the remote `cellar`. If the folder has a Worker's entry file but no Wrangler
 * configuration, writes one.
 */
function link(session: Session, slug: string, url: string): void {
  const { folder, say } = session.place;
  if (!isRepository(folder)) {
    git(folder, 'init', '--quiet', '--initial-branch=main');
    say(`Made ${folder} a git repository\n`);
  }
  const known = readGit(folder, 'config', '--get', `remote.${REMOTE}.url`);
  if (known === null) git(folder, 'remote', 'add', REMOTE, url);
  else if (known !== url) git(folder, 'remote', 'set-url', REMOTE, url);
  const main = MAINS.find((file) => existsSync(join(folder, file)));
  if (configurationOf(folder) !== null || main === undefined) return;
  writeFileSync(join(folder, 'wrangler.jsonc'), configuration(slug, main), { flag: 'wx' });
  say(`Wrote wrangler.jsonc for ${main}\n`);
}

/**
 * Lets git use the API key of `cellar login` for the git server of `remote`. `cellar login` does this itself if it
 * finds the address of that server.
 */
function useKeyOfLogin({ login, place }: Session, remote: string): void {
  const saved = savedLogin(place.env);
  const git = new URL(remote).origin;
  if (saved === null || saved.url !== login.url || saved.git === git || !isKey(saved.token)) return;
  keepLogin(place.env, { ...saved, git });
  if (installHelper(place, git)) place.say(`git uses the key of \`cellar login\` for ${git}\n`);
}

function git(folder: string, ...words: string[]): void {
  if (readGit(folder, ...words) === null) throw new Stopped('failed', `git ${words.join(' ')} failed.`);
}

function configuration(name: string, main: string): string {
  return `${JSON.stringify({ name, main, compatibility_date: COMPATIBILITY_DATE }, null, 2)}\n`;
}

/** Returns the steps of `init` as shell commands, with the variables that Wrangler needs for this Cellar. */
function stepsOf(session: Session, slug: string): string[] {
  return [
    `cellar create ${slug}`,
    `git remote add ${REMOTE} <the url below>`,
    `export CLOUDFLARE_API_BASE_URL=${session.login.url}/client/v4`,
    'export CLOUDFLARE_API_TOKEN=<the runner token, or an API key>',
  ];
}
