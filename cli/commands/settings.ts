// Commands for an app's settings: build variables, secrets, domains, e-mail addresses, TCP ports, limits, builds,
// collaborators.
import type { Result } from '../../handlers/contract/index.ts';
import { type Command, command, type Input, textOf } from '../command.ts';
import { Stopped } from '../exit.ts';
import { type Session, whole } from '../session.ts';
import { ago, fields, plain, status, table } from '../show.ts';
import { deployModeOf } from './sources.ts';

const roles = ['view', 'push', 'admin'] as const;
const value = {
  name: 'value',
  summary: 'the value; left out, it is read from standard input',
  optional: true,
} as const;

const address = { name: 'address', summary: 'such as info@shop.example.com, or *@shop.example.com' } as const;

const port = { name: 'port', summary: 'such as 20000; the operator allows a range' } as const;

/** Declares a command that lists all items of one kind of an app. */
export function listCommand<Item>({
  read,
  columns,
  ...declared
}: Pick<Command, 'words' | 'summary' | 'examples' | 'answers'> & {
  read: (
    session: Session,
    asked: { id: string; limit: number; cursor?: string },
  ) => Promise<{ items: Item[]; next_cursor: string | null }>;
  /** Each column's heading, and its text for an item. */
  columns: readonly (readonly [string, (item: Item) => string])[];
}): Command {
  return {
    ...declared,
    ofApp: true,
    run: (session: Session) => {
      const id = session.app();
      return whole((page) => read(session, { id, ...page }));
    },
    show: ({ items }: { items: Item[] }) =>
      table(
        columns.map(([head]) => head),
        items.map((item) => columns.map(([, shown]) => shown(item))),
        'The list is empty.',
      ),
  } as unknown as Command;
}

export const settingCommands: readonly Command[] = [
  listCommand({
    words: 'env list',
    summary: 'Lists the build variables: environment variables of the install and build commands',
    examples: ['env', 'env list --app shop'],
    answers: 'env.list',
    read: (session, asked) => session.call('env.list', asked),
    columns: [
      ['NAME', ({ name }) => name],
      ['CHANGED', ({ updated_at }) => ago(updated_at)],
      ['VALUE', ({ value }) => value],
    ],
  }),
  command({
    words: 'env set',
    summary: 'Sets a build variable, which install and build commands get from the next deploy on',
    ofApp: true,
    arguments: [{ name: 'name', summary: 'the name of the build variable' }, value],
    examples: ['env set NPM_TOKEN npm_123', 'env set NPM_TOKEN < token'],
    answers: 'env.set',
    run: async (session, input) =>
      session.call('env.set', {
        id: session.app(),
        name: String(input.name),
        value: await givenValue(session, input),
      }),
    show: ({ name }) => `${name} is set from the next deploy on`,
  }),
  command({
    words: 'env delete',
    summary: 'Removes a build variable, from the next deploy on',
    ofApp: true,
    arguments: [{ name: 'name', summary: 'the name of the build variable' }],
    examples: ['env delete NPM_TOKEN'],
    answers: 'env.delete',
    run: (session, { name }) => session.call('env.delete', { id: session.app(), name: String(name) }),
  }),
  listCommand({
    words: 'secrets list',
    summary: "Lists the names of the Worker's secrets",
    examples: ['secrets'],
    answers: 'secrets.list',
    read: (session, asked) => session.call('secrets.list', asked),
    columns: [
      ['NAME', ({ name }) => name],
      ['CHANGED', ({ updated_at }) => ago(updated_at)],
    ],
  }),
  command({
    words: 'secrets set',
    summary: 'Sets a secret; a running app is restarted with the secret at once',
    ofApp: true,
    arguments: [{ name: 'name', summary: 'the name of the secret' }, value],
    examples: ['secrets set STRIPE_KEY < key'],
    answers: 'secrets.set',
    run: async (session, input) =>
      session.call('secrets.set', {
        id: session.app(),
        name: String(input.name),
        value: await givenValue(session, input),
      }),
    show: ({ name, problem }) => (problem === null ? `${name} is set` : `${name} is stored. ${problem}`),
  }),
  command({
    words: 'secrets delete',
    summary: 'Deletes a secret',
    ofApp: true,
    arguments: [{ name: 'name', summary: 'the name of the secret' }],
    examples: ['secrets delete STRIPE_KEY --yes'],
    answers: 'secrets.delete',
    destroys: ({ name }) => `Delete the secret ${name}? Its value cannot be read back.`,
    run: (session, { name }) => session.call('secrets.delete', { id: session.app(), name: String(name) }),
  }),
  listCommand({
    words: 'domains list',
    summary: "Lists an app's own hostnames",
    examples: ['domains'],
    answers: 'domains.list',
    read: (session, asked) => session.call('domains.list', asked),
    columns: [
      ['HOSTNAME', ({ hostname }) => hostname],
      ['STATE', ({ state }) => status(state)],
      ['SINCE', ({ created_at }) => ago(created_at)],
      ['WHY', ({ reason }) => plain(reason ?? '')],
    ],
  }),
  command({
    words: 'domains add',
    summary:
      'Attaches a hostname to an app; Cellar serves the hostname once its DNS points to this Cellar, or a TXT record names the app',
    ofApp: true,
    arguments: [{ name: 'hostname', summary: 'such as shop.example.com' }],
    examples: ['domains add shop.example.com'],
    answers: 'domains.add',
    run: (session, { hostname }) =>
      session.call('domains.add', { id: session.app(), hostname: String(hostname) }),
    show: ({ hostname, state, reason, records }) =>
      state === 'active'
        ? `${hostname} is served`
        : [
            `${hostname} is not served yet. ${plain(reason ?? '')}`,
            'Set one of these DNS records; Cellar looks them up every minute:',
            ...records.map(({ type, name, value }) => `  ${name}  ${type}  ${value}`),
          ].join('\n'),
  }),
  command({
    words: 'domains remove',
    summary: 'Detaches a hostname, which stays reserved for its owner for 7 days',
    ofApp: true,
    arguments: [{ name: 'hostname', summary: 'such as shop.example.com' }],
    examples: ['domains remove shop.example.com --yes'],
    answers: 'domains.remove',
    destroys: ({ hostname }) => `Stop serving ${hostname}?`,
    run: (session, { hostname }) =>
      session.call('domains.remove', { id: session.app(), hostname: String(hostname) }),
  }),
  listCommand({
    words: 'mail list',
    summary: 'Lists the e-mail addresses of an app',
    examples: ['mail', 'mail list --app shop'],
    answers: 'mail.routes.list',
    read: (session, asked) => session.call('mail.routes.list', asked),
    columns: [
      ['ADDRESS', ({ address }) => address],
      ['SINCE', ({ created_at }) => ago(created_at)],
    ],
  }),
  command({
    words: 'mail set',
    summary: "Delivers messages to an e-mail address to the app's email() handler",
    ofApp: true,
    arguments: [address],
    examples: ['mail set info@shop.example.com', "mail set '*@shop.example.com'"],
    answers: 'mail.routes.set',
    run: (session, { address }) =>
      session.call('mail.routes.set', { id: session.app(), address: String(address) }),
    show: ({ address }) => `the app gets the messages to ${address}`,
  }),
  command({
    words: 'mail delete',
    summary: 'Removes an e-mail address from an app; Cellar then refuses messages to the address',
    ofApp: true,
    arguments: [address],
    examples: ['mail delete info@shop.example.com --yes'],
    answers: 'mail.routes.delete',
    destroys: ({ address }) => `Refuse messages to ${address}?`,
    run: (session, { address }) =>
      session.call('mail.routes.delete', { id: session.app(), address: String(address) }),
  }),
  listCommand({
    words: 'tcp list',
    summary: 'Lists the TCP ports of an app',
    examples: ['tcp', 'tcp list --app shop'],
    answers: 'tcp.ports.list',
    read: (session, asked) => session.call('tcp.ports.list', asked),
    columns: [
      ['PORT', ({ port }) => String(port)],
      ['SINCE', ({ created_at }) => ago(created_at)],
    ],
  }),
  command({
    words: 'tcp set',
    summary: "Passes connections to a TCP port to the app's connect() handler",
    ofApp: true,
    arguments: [port],
    examples: ['tcp set 20000'],
    answers: 'tcp.ports.set',
    run: (session, input) => session.call('tcp.ports.set', { id: session.app(), port: Number(input.port) }),
    show: (set) => `the app gets the connections to port ${set.port}`,
  }),
  command({
    words: 'tcp delete',
    summary: 'Removes a TCP port from an app; Cellar then resets new connections to the port',
    ofApp: true,
    arguments: [port],
    examples: ['tcp delete 20000 --yes'],
    answers: 'tcp.ports.delete',
    destroys: (input) => `Reset connections to port ${input.port}?`,
    run: (session, input) =>
      session.call('tcp.ports.delete', { id: session.app(), port: Number(input.port) }),
  }),
  command({
    words: 'limits get',
    summary: 'Shows how many requests per minute an app accepts',
    ofApp: true,
    examples: ['limits'],
    answers: 'limits.get',
    run: (session) => session.call('limits.get', { id: session.app() }),
    show: shownLimits,
  }),
  command({
    words: 'limits set',
    summary:
      'Sets how many requests per minute an app accepts; 0: no limit; `default`: the default of this Cellar',
    ofApp: true,
    options: [
      { flags: '--client-rpm <count>', summary: 'maximum requests per minute from one visitor' },
      { flags: '--app-rpm <count>', summary: 'maximum requests per minute from all visitors together' },
    ],
    examples: ['limits set --client-rpm 600 --app-rpm default'],
    answers: 'limits.set',
    run: (session, input) =>
      session.call('limits.set', {
        id: session.app(),
        ...limitOf('clientRpm', textOf(input, 'clientRpm')),
        ...limitOf('appRpm', textOf(input, 'appRpm')),
      }),
    show: shownLimits,
  }),
  command({
    words: 'builds get',
    summary: 'Shows the root directory and the build commands of an app, and which pushes deploy it',
    ofApp: true,
    examples: ['builds'],
    answers: 'builds.get',
    run: (session) => session.call('builds.get', { id: session.app() }),
    show: shownBuilds,
  }),
  command({
    words: 'builds set',
    summary:
      'Sets the root directory and the build commands of an app, and which pushes deploy it; `default`: detected',
    ofApp: true,
    options: [
      { flags: '--root-directory <folder>', summary: 'the folder of the app in the repository' },
      {
        flags: '--install-command <command>',
        summary: 'command that installs the packages, in the root directory',
      },
      { flags: '--build-command <command>', summary: 'command that builds, in the root directory' },
      {
        flags: '--release-command <command>',
        summary: 'command that runs after the build, before the new version is live; `default`: nothing runs',
      },
      {
        flags: '--output-directory <folder>',
        summary: 'the folder of the static files, relative to the root directory',
      },
      {
        flags: '--deploy-on <what>',
        summary: 'main: each push to main; tags: the pushed tag with the highest version; manual: no push',
      },
    ],
    examples: [
      'builds set --root-directory apps/web',
      'builds set --deploy-on tags',
      "builds set --build-command 'npm run build:web' --output-directory default",
      "builds set --release-command 'npm run migrate'",
    ],
    answers: 'builds.set',
    run: (session, input) =>
      session.call('builds.set', {
        id: session.app(),
        ...buildSetting('root_directory', textOf(input, 'rootDirectory')),
        ...buildSetting('install_command', textOf(input, 'installCommand')),
        ...buildSetting('build_command', textOf(input, 'buildCommand')),
        ...buildSetting('release_command', textOf(input, 'releaseCommand')),
        ...buildSetting('output_directory', textOf(input, 'outputDirectory')),
        ...(textOf(input, 'deployOn') !== undefined && { deploy_on: deployModeOf(input) }),
      }),
    show: shownBuilds,
  }),
  listCommand({
    words: 'collaborators list',
    summary: 'Lists the collaborators of an app, with their roles',
    examples: ['collaborators'],
    answers: 'collaborators.list',
    read: (session, asked) => session.call('collaborators.list', asked),
    columns: [
      ['ACCOUNT', ({ account }) => account],
      ['ROLE', ({ role }) => role],
      ['SINCE', ({ created_at }) => ago(created_at)],
    ],
  }),
  command({
    words: 'collaborators set',
    summary: 'Sets the role of an account on an app',
    ofApp: true,
    arguments: [
      { name: 'account', summary: 'the id of the account' },
      { name: 'role', summary: 'the permissions of the account on the app', choices: roles },
    ],
    examples: ['collaborators set 0f9q2t6m8r4kx1zb push'],
    answers: 'collaborators.set',
    run: (session, { account, role }) =>
      session.call('collaborators.set', {
        id: session.app(),
        account: String(account),
        role: role as (typeof roles)[number],
      }),
    show: ({ account, role }) => `${account} has the role ${role}`,
  }),
  command({
    words: 'collaborators remove',
    summary: "Removes an account's role on an app",
    ofApp: true,
    arguments: [{ name: 'account', summary: 'the id of the account' }],
    examples: ['collaborators remove 0f9q2t6m8r4kx1zb --yes'],
    answers: 'collaborators.remove',
    destroys: ({ account }) => `Remove the role of the account ${account}?`,
    run: (session, { account }) =>
      session.call('collaborators.remove', { id: session.app(), account: String(account) }),
  }),
];

/** Returns the given value; without one, asks for it or reads standard input, without the final line end. */
export async function givenValue(session: Session, input: Input): Promise<string> {
  const given = textOf(input, 'value');
  if (given !== undefined) return given;
  if (!session.place.isTerminal) return (await session.place.input()).replace(/\r?\n$/, '');
  const { askSecret } = await import('../ask.ts');
  return askSecret(`Value of ${input.name}`, session.place.signal);
}

function limitOf(name: 'clientRpm' | 'appRpm', text: string | undefined) {
  if (text === undefined) return {};
  if (text === 'default') return { [name]: null };
  if (/^\d{1,8}$/.test(text)) return { [name]: Number(text) };
  throw new Stopped(
    'usage',
    `${text} is not a limit: give a number, or default.`,
    'cellar limits set --help',
  );
}

function buildSetting(name: Exclude<keyof Result<'builds.get'>, 'deploy_on'>, text: string | undefined) {
  return text === undefined ? {} : { [name]: text === 'default' ? null : text };
}

function shownBuilds(builds: Result<'builds.get'>): string {
  return fields([
    ['root directory', builds.root_directory ?? 'the repository, or the one folder with a project'],
    ['install', builds.install_command ?? 'the package manager of the lock file'],
    ['build', builds.build_command ?? "build.command of Wrangler, or package.json's script build"],
    ['release', builds.release_command ?? 'nothing runs before a new version is live'],
    [
      'output directory',
      builds.output_directory ?? 'as the project configures it, or the folder that the build writes',
    ],
    ['deploys', builds.deploy_on === 'main' ? 'each push to main' : builds.deploy_on],
  ]);
}

function shownLimits(limits: {
  clientRpm: number | null;
  appRpm: number | null;
  defaults: { clientRpm: number; appRpm: number };
}): string {
  const shown = (own: number | null, usual: number) => {
    const count = own ?? usual;
    return `${count === 0 ? 'no limit' : `${count} a minute`}${own === null ? ' (by default)' : ''}`;
  };
  return fields([
    ['one visitor', shown(limits.clientRpm, limits.defaults.clientRpm)],
    ['all visitors', shown(limits.appRpm, limits.defaults.appRpm)],
  ]);
}
