// Commands that create, list, start, stop, scale, rename and delete apps, and that set their maintenance page.
import { spawn } from 'node:child_process';
import type { Result } from '../../handlers/contract/index.ts';
import { type Command, command, readText, textOf } from '../command.ts';
import { linkedSlug, REMOTE, readGit } from '../git/folder.ts';
import { whole } from '../session.ts';
import { ago, fields, many, shownApp, shownFailure, status, table } from '../show.ts';
import { newestDeploy } from './deploys.ts';

const STORAGE = ['local', 'bucket'] as const;

export const appCommands: readonly Command[] = [
  command({
    words: 'create',
    summary: 'Makes an app',
    arguments: [{ name: 'slug', summary: 'the name of the app, which is part of its address' }],
    options: [
      {
        flags: '--storage <place>',
        summary: "where the app keeps its data; by default the host's RUNNER_STORAGE",
        choices: STORAGE,
      },
    ],
    examples: ['create shop', 'create shop --storage bucket'],
    answers: 'apps.create',
    run: (session, { slug, storage }) => {
      const place = STORAGE.find((each) => each === storage);
      return session.call('apps.create', { slug: String(slug), ...(place && { storage: place }) });
    },
    show: shownApp,
  }),
  command({
    words: 'list',
    summary: 'Lists apps, newest first',
    options: [
      {
        flags: '--dispatch-namespace <name>',
        summary: 'the scripts of this dispatch namespace instead of apps; * for the scripts of all',
      },
    ],
    examples: ['list', 'list --json', 'list --dispatch-namespace customers'],
    answers: 'apps.list',
    run: (session, input) => {
      const name = textOf(input, 'dispatchNamespace');
      const of = name === undefined ? {} : { dispatch_namespace: name };
      return whole((page) => session.call('apps.list', { ...page, ...of }));
    },
    show: ({ items }) =>
      table(
        ['APP', 'STATUS', 'DEPLOYED', 'URL'],
        items.map(({ dispatch, ...app }) => [
          app.slug,
          status(app.status),
          ago(app.deployed_at),
          dispatch === null ? app.url : `script ${dispatch.script} of ${dispatch.namespace}`,
        ]),
        'There are no apps yet. Next: cellar create NAME',
      ),
  }),
  command({
    words: 'status',
    summary: 'Shows one app, and why its last deploy failed if it did',
    ofApp: true,
    examples: ['status', 'status --app shop'],
    answers: 'apps.get',
    run: (session) => session.call('apps.get', { id: session.app() }),
    show: async (app, session) => {
      const deploy = await newestDeploy(session, app.id);
      const lines = [shownApp(app)];
      if (app.replicas > 1) {
        const { processes } = await session.call('apps.figures', { id: app.id });
        lines.push(`${many(processes, 'process serves', 'processes serve')} now.`);
      }
      if (deploy?.status === 'failed') lines.push(shownFailure(deploy));
      return lines.join('\n');
    },
  }),
  command({
    words: 'open',
    summary: "Opens an app's address in the browser, and prints it",
    ofApp: true,
    examples: ['open'],
    answers: 'apps.get',
    run: async (session) => {
      const app = await session.call('apps.get', { id: session.app() });
      if (session.place.isTerminal) {
        const browser = spawn('xdg-open', [app.url], { stdio: 'ignore', detached: true });
        browser.on('error', () =>
          session.place.say('No browser was opened, because the program xdg-open is missing.\n'),
        );
        browser.unref();
      }
      return app;
    },
    show: ({ url }) => url,
  }),
  command({
    words: 'sleep',
    summary: 'Sends an app to sleep; the next request wakes it',
    ofApp: true,
    examples: ['sleep --app shop'],
    answers: 'apps.sleep',
    run: (session) => session.call('apps.sleep', { id: session.app() }),
    show: shownApp,
  }),
  starts('wake', 'Wakes an app that sleeps'),
  starts('start', 'Starts an app that was stopped'),
  command({
    words: 'stop',
    summary: 'Stops an app: it answers 503 until it is started',
    ofApp: true,
    examples: ['stop --app shop'],
    answers: 'apps.update',
    run: (session) => session.call('apps.update', { id: session.app(), desired_state: 'stopped' }),
    show: shownApp,
  }),
  command({
    words: 'maintenance get',
    summary: 'Shows whether visitors of an app get its maintenance page',
    ofApp: true,
    examples: ['maintenance'],
    answers: 'maintenance.get',
    run: (session) => session.call('maintenance.get', { id: session.app() }),
    show: shownMaintenance,
  }),
  command({
    words: 'maintenance on',
    summary: 'Gives visitors of an app its maintenance page, with 503; no request reaches the app',
    ofApp: true,
    options: [
      {
        flags: '--page <file>',
        summary:
          "a file with the HTML of the page, up to 64 KiB, which is kept for later; `default`: Cellar's own page",
      },
    ],
    examples: ['maintenance on', 'maintenance on --page maintenance.html'],
    answers: 'maintenance.set',
    run: (session, input) => {
      const page = textOf(input, 'page');
      const html = page === undefined ? {} : { html: page === 'default' ? null : readText(page) };
      return session.call('maintenance.set', { id: session.app(), enabled: true, ...html });
    },
    show: shownMaintenance,
  }),
  command({
    words: 'maintenance off',
    summary: 'Lets requests reach the app again',
    ofApp: true,
    examples: ['maintenance off'],
    answers: 'maintenance.set',
    run: (session) => session.call('maintenance.set', { id: session.app(), enabled: false }),
    show: shownMaintenance,
  }),
  command({
    words: 'scale',
    summary: 'Sets how many processes an app runs; more than one needs its data in the bucket',
    ofApp: true,
    arguments: [{ name: 'processes', summary: 'from 1 to 16' }],
    examples: ['scale 4 --app shop'],
    answers: 'apps.update',
    run: (session, { processes }) =>
      session.call('apps.update', { id: session.app(), replicas: Number(processes) }),
    show: shownApp,
  }),
  command({
    words: 'rename',
    summary: 'Renames an app: its address and its git remote change, its data stays',
    ofApp: true,
    arguments: [{ name: 'slug', summary: 'the new name' }],
    examples: ['rename store --app shop'],
    answers: 'apps.rename',
    run: async (session, { slug }) => {
      const { folder } = session.place;
      const before = await session.call('apps.get', { id: session.app() });
      const app = await session.call('apps.rename', { id: before.id, slug: String(slug) });
      if (linkedSlug(folder) === before.slug) readGit(folder, 'remote', 'set-url', REMOTE, app.git_url);
      return app;
    },
    show: shownApp,
  }),
  command({
    words: 'delete',
    summary: 'Deletes an app; its data stays in the trash for 7 days',
    ofApp: true,
    examples: ['delete --app shop --yes'],
    answers: 'apps.delete',
    destroys: (_, session) => `Delete the app ${session.app()} and its storage?`,
    run: (session) => session.call('apps.delete', { id: session.app() }),
  }),
  command({
    words: 'deleted',
    summary: 'Lists deleted apps that can be undeleted, the last deleted first',
    examples: ['deleted'],
    answers: 'apps.list_deleted',
    run: (session) => whole((page) => session.call('apps.list_deleted', page)),
    show: ({ items }) =>
      table(
        ['APP', 'ID', 'DELETED', 'KEPT UNTIL'],
        items.map((app) => [app.slug, app.id, ago(app.deleted_at), app.removed_at]),
        'No app was deleted in the last 7 days.',
      ),
  }),
  command({
    words: 'undelete',
    summary:
      'Brings back an app that was deleted in the last 7 days, with its data, code, secrets and free domains',
    arguments: [{ name: 'app', summary: 'the former name of the app, or its id' }],
    options: [{ flags: '--name <slug>', summary: 'a new name for the app, if its former name is taken' }],
    examples: ['undelete shop', 'undelete shop --name shop-2'],
    answers: 'apps.undelete',
    run: (session, { app, name }) =>
      session.call('apps.undelete', { app: String(app), ...(name !== undefined && { slug: String(name) }) }),
    show: shownApp,
  }),
];

function starts(words: string, summary: string): Command {
  return command({
    words,
    summary,
    ofApp: true,
    examples: [`${words} --app shop`],
    answers: 'apps.update',
    run: (session) => session.call('apps.update', { id: session.app(), desired_state: 'running' }),
    show: shownApp,
  });
}

function shownMaintenance({ enabled, html }: Result<'maintenance.get'>): string {
  return fields([
    ['maintenance', enabled ? 'on: visitors get 503' : 'off'],
    ['page', html === null ? "Cellar's own" : `your own, ${many(Buffer.byteLength(html), 'byte')}`],
  ]);
}
