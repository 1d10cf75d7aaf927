// Commands for previews: releases of other branches and of uploaded versions, with their own addresses.
import type { Result } from '../../handlers/contract/index.ts';
import { type Command, command } from '../command.ts';
import { whole } from '../session.ts';
import { ago, fields, firstLine, plain, shownDeploy, status, table } from '../show.ts';
import { finished, succeeded } from './deploys.ts';

const name = { name: 'preview', summary: 'the name of the preview, as `cellar previews` lists it' } as const;

export const previewCommands: readonly Command[] = [
  command({
    words: 'previews list',
    summary: "Lists an app's previews, newest first",
    ofApp: true,
    examples: ['previews'],
    answers: 'previews.list',
    run: (session) => {
      const id = session.app();
      return whole((page) => session.call('previews.list', { id, ...page }));
    },
    show: ({ items }) =>
      table(
        ['PREVIEW', 'STATUS', 'DEPLOYED', 'GOES', 'COMMIT', 'URL'],
        items.map((preview) => [
          preview.name,
          status(preview.deploy?.status ?? 'queued'),
          ago(preview.deploy?.started_at ?? null),
          ago(preview.expires_at),
          plain(firstLine(preview.deploy?.message ?? '')),
          preview.url,
        ]),
        'The app has no previews. Next: cellar previews on, then push a branch; or wrangler versions upload',
      ),
  }),
  command({
    words: 'previews get',
    summary:
      'Shows the settings of previews: whether pushes to branches other than main make previews, how their storage starts, and the overrides of their variables',
    ofApp: true,
    examples: ['previews get'],
    answers: 'previews.get',
    run: (session) => session.call('previews.get', { id: session.app() }),
    show: shownSettings,
  }),
  command({
    words: 'previews on',
    summary:
      "Makes previews of pushes to branches other than main; their storage starts empty, or as a copy of the app's",
    ofApp: true,
    options: [{ flags: '--copy', summary: "start with a copy of the app's storage" }],
    examples: ['previews on', 'previews on --copy'],
    answers: 'previews.set',
    run: (session, { copy }) =>
      session.call('previews.set', {
        id: session.app(),
        branches: true,
        storage: copy === true ? 'copy' : 'empty',
      }),
    show: shownSettings,
  }),
  command({
    words: 'previews off',
    summary:
      'Stops making previews of pushes to other branches; existing previews stay for 7 days after their last push',
    ofApp: true,
    examples: ['previews off'],
    answers: 'previews.set',
    run: (session) => session.call('previews.set', { id: session.app(), branches: false }),
    show: shownSettings,
  }),
  command({
    words: 'previews log',
    summary: "Shows the log of a preview's newest deploy",
    ofApp: true,
    arguments: [name],
    examples: ['previews log feature-login'],
    answers: 'previews.log',
    run: (session, { preview }) =>
      session.call('previews.log', { id: session.app(), preview: String(preview) }),
    show: ({ log }) => log.trimEnd(),
  }),
  command({
    words: 'previews promote',
    summary:
      'Deploys the release of a preview to its app, and waits. If the deploy fails, the exit code is 1',
    ofApp: true,
    arguments: [name],
    examples: ['previews promote feature-login'],
    answers: 'previews.promote',
    run: async (session, { preview }) => {
      const app = await session.call('apps.get', { id: session.app() });
      const begun = await session.call('previews.promote', { id: app.id, preview: String(preview) });
      return succeeded(session, app, await finished(session, app.id, begun, true));
    },
    show: shownDeploy,
  }),
  command({
    words: 'previews delete',
    summary: 'Deletes a preview and its storage',
    ofApp: true,
    arguments: [name],
    examples: ['previews delete feature-login --yes'],
    answers: 'previews.delete',
    destroys: ({ preview }, session) =>
      `Delete the preview ${preview} of the app ${session.app()}, with its storage?`,
    run: (session, { preview }) =>
      session.call('previews.delete', { id: session.app(), preview: String(preview) }),
  }),
];

function shownSettings({ branches, storage, vars }: Result<'previews.get'>): string {
  return fields([
    ['branches', branches ? 'a push to another branch makes a preview' : 'only main is deployed'],
    ['storage', storage === 'copy' ? "a copy of the app's storage" : 'empty'],
    ['overrides of variables', Object.keys(vars).join(', ') || 'none'],
  ]);
}
