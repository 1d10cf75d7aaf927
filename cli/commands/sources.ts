// Commands for deploys from a repository on a Git host.
import type { Result } from '../../handlers/contract/index.ts';
import { type Command, command, type Input, textOf } from '../command.ts';
import { Stopped } from '../exit.ts';
import { ago, fields, plain, table } from '../show.ts';

const MODES = ['main', 'tags', 'manual'] as const;

export const sourceCommands: readonly Command[] = [
  command({
    words: 'source get',
    summary:
      'Shows the connected repository of an app, its deploy key and the last deliveries of its webhook',
    ofApp: true,
    examples: ['source', 'source get --app shop'],
    answers: 'source.get',
    run: (session) => session.call('source.get', { id: session.app() }),
    show: (connection) => {
      const { deliveries } = connection;
      const rows = deliveries.map(({ at, event, result }) => [ago(at), plain(event), result]);
      const list = deliveries.length === 0 ? '' : `\n\n${table(['DELIVERED', 'EVENT', 'RESULT'], rows, '')}`;
      return shown(connection) + list + pullsOf(connection);
    },
  }),
  command({
    words: 'source connect',
    summary: 'Deploys the app from a repository on GitHub, GitLab, Forgejo, Gitea or another Git host',
    ofApp: true,
    arguments: [
      {
        name: 'url',
        summary: 'the repository: https://host/path, or git@host:path, which needs the deploy key',
      },
    ],
    options: [
      { flags: '--branch <branch>', summary: 'the branch to deploy; by default main' },
      {
        flags: '--deploy-on <what>',
        summary:
          'main: each commit of the branch; tags: the tag with the highest version; manual: only `cellar source sync`',
      },
      {
        flags: '--poll <minutes>',
        summary: 'minutes between two checks for pushes, if no webhook reaches Cellar',
      },
      { flags: '--secret <secret>', summary: 'the secret of the webhook; by default a random one' },
      { flags: '--token <token>', summary: 'a token that may read the repository over HTTPS' },
    ],
    examples: [
      'source connect https://github.com/ada/shop',
      'source connect git@git.example:ada/shop.git --deploy-on tags --poll 5',
    ],
    answers: 'source.connect',
    run: (session, input) => {
      const poll = textOf(input, 'poll');
      const minutes = poll === undefined ? null : Number(poll);
      if (Number.isNaN(minutes))
        throw new Stopped('usage', `--poll must be a number of minutes, not ${poll}.`);
      return session.call('source.connect', {
        id: session.app(),
        url: String(input.url),
        deploy_on: deployModeOf(input),
        poll_minutes: minutes,
        ...given(input, ['branch', 'secret', 'token']),
      });
    },
    show: (connection) => `${shown(connection)}\n${fields([['secret', connection.secret]])}`,
  }),
  command({
    words: 'source sync',
    summary:
      'Fetches the connected repository now, and deploys its newest commit or the given branch, tag or commit',
    ofApp: true,
    arguments: [{ name: 'ref', summary: 'a branch, a tag or a full commit hash', optional: true }],
    examples: ['source sync', 'source sync v1.4'],
    answers: 'source.sync',
    run: (session, input) => session.call('source.sync', { id: session.app(), ...given(input, ['ref']) }),
    show: ({ sha, deploy_id }) =>
      deploy_id === null ? `main is at ${sha} already` : `Commit ${sha} is deployed as ${deploy_id}`,
  }),
  command({
    words: 'source approve',
    summary:
      'Approves a commit of a pull request from outside: a preview runs its code with the secrets of the app',
    ofApp: true,
    arguments: [{ name: 'number', summary: 'the number of the pull request' }],
    options: [{ flags: '--sha <sha>', summary: 'the full hash of the commit that was reviewed' }],
    examples: ['source approve 12', 'source approve 12 --sha 4b825dc642cb6eb9a060e54bf8d69288fbee4904'],
    answers: 'source.approve',
    run: async (session, input) => {
      const number = Number(input.number);
      if (!Number.isSafeInteger(number) || number < 1)
        throw new Stopped('usage', `${plain(String(input.number))} is not the number of a pull request.`);
      const sha = textOf(input, 'sha');
      if (sha === undefined)
        throw reviewFirst(number, await session.call('source.get', { id: session.app() }));
      return session.call('source.approve', { id: session.app(), number, sha });
    },
    show: ({ number, title, author, sha }) =>
      `Pull request ${number} (${plain(title)}, by ${plain(author)}) gets a preview of ${sha}`,
  }),
  command({
    words: 'source disconnect',
    summary:
      'Disconnects the app from its repository, and deletes the deploy key; the live release continues to serve',
    ofApp: true,
    examples: ['source disconnect --yes'],
    answers: 'source.disconnect',
    destroys: (_, session) => `Disconnect the app ${session.app()}, and forget its deploy key?`,
    run: (session) => session.call('source.disconnect', { id: session.app() }),
  }),
];

/** Returns the error for an approval that names no commit. It shows the newest commit, and asks to review it first. */
function reviewFirst(number: number, { pulls }: Result<'source.get'>): Stopped {
  const pull = pulls.find((each) => each.number === number && each.state !== 'closed');
  if (pull === undefined)
    return new Stopped('notFound', `There is no open pull request ${number}.`, 'cellar source');
  const { title, author, sha } = pull;
  return new Stopped(
    'usage',
    `Pull request ${number} (${plain(title)}, by ${plain(author)}) is at the commit ${sha}. Review that commit, then give its hash with --sha.`,
    `cellar source approve ${number} --sha ${sha}`,
  );
}

function pullsOf({ pulls }: Result<'source.get'>): string {
  if (pulls.length === 0) return '';
  const rows = pulls.map(({ number, title, state, sha, url, error }) => [
    String(number),
    plain(title),
    state,
    sha.slice(0, 8),
    plain(url ?? error ?? ''),
  ]);
  return `\n\n${table(['PULL REQUEST', 'TITLE', 'STATE', 'COMMIT', 'PREVIEW'], rows, '')}`;
}

/** Returns the option `--deploy-on`; `main` without it. @throws {Stopped} for a value that is not in `MODES` */
export function deployModeOf(input: Input): (typeof MODES)[number] {
  const text = textOf(input, 'deployOn') ?? 'main';
  const mode = MODES.find((each) => each === text);
  if (mode === undefined)
    throw new Stopped('usage', `--deploy-on must be one of ${MODES.join(', ')}, not ${text}.`);
  return mode;
}

function given<Name extends string>(input: Input, names: readonly Name[]): Partial<Record<Name, string>> {
  const found = names.flatMap((name) => {
    const text = textOf(input, name);
    return text === undefined ? [] : [[name, text]];
  });
  return Object.fromEntries(found) as Partial<Record<Name, string>>;
}

function shown(connection: Result<'source.get'>): string {
  const { url, branch, deploy_on, poll_minutes, last_fetch, host_keys } = connection;
  const looks = poll_minutes === null ? null : `every ${poll_minutes} min`;
  return fields([
    ['url', plain(url)],
    ['deploys', deploy_on === 'main' ? `each commit of ${plain(branch)}` : deploy_on],
    ['looks', looks],
    ['fetched', last_fetch && `${ago(last_fetch.at)}: ${plain(last_fetch.error ?? last_fetch.sha ?? '')}`],
    ['deploy key', connection.deploy_key],
    ['host keys', host_keys.map(({ type, fingerprint }) => `${type} ${fingerprint}`).join(', ') || null],
    ['webhook', connection.webhook_url],
  ]);
}
