// The deploys of an app, newest first.

import { useState } from 'preact/hooks';
import { api } from '../../api.ts';
import { FolderDrop } from '../../layout/folder-drop.tsx';
import { Head } from '../../layout/head.tsx';
import {
  type Deploy,
  deploysModel,
  hasCommits,
  isUnderWay,
  originOf,
  tookMs,
} from '../../models/deploys/deploys.ts';
import { Button, Link } from '../../parts/controls/button.tsx';
import { askFirst } from '../../parts/controls/confirm.tsx';
import { Dialog } from '../../parts/controls/dialog.tsx';
import { duration, firstLine, shortSha } from '../../parts/format.ts';
import { IconFolder, IconRefreshCw, IconRocket, IconRotateCcw } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Status } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { Listed } from '../../parts/tables/pages.tsx';
import type { Column } from '../../parts/tables/table.tsx';
import { open } from '../../router.ts';
import { DeployRef } from './deploy-ref.tsx';
import { Previews } from './deploys-previews.tsx';
import { Split } from './deploys-split.tsx';

/** Returns a deploy's title: the first line of its message, else its commit. */
export function titleOf({ message, sha }: Deploy): string {
  return firstLine(message) || (sha === '' ? 'An upload' : `Commit ${shortSha(sha)}`);
}

/** Asks, then rolls back, and opens the deploy of the rollback. */
export function askToRollBack(app: string, deploy: Deploy): void {
  askFirst({
    title: `Roll back to “${titleOf(deploy)}”?`,
    about:
      'Its release replaces the one that serves now; no request is dropped. Code goes back, data does not: databases and migrations stay as they are.',
    action: 'Roll back to this deploy',
    run: async () => {
      const { id } = await api('deploys.rollback', { id: app, deploy_id: deploy.id });
      open({ name: 'deploy', app, deploy: id });
    },
  });
}

const columns = (app: string): readonly Column<Deploy>[] => [
  {
    name: 'Deploy',
    wide: true,
    cell: (deploy) => (
      <span class="stack lines">
        <Link to={{ name: 'deploy', app, deploy: deploy.id }} class="main-cell cut">
          {titleOf(deploy)}
        </Link>
        {(deploy.status === 'failed' || deploy.status === 'cancelled') && deploy.error && (
          <span class="cut small danger">{firstLine(deploy.error)}</span>
        )}
      </span>
    ),
  },
  { name: 'Status', cell: ({ status }) => <Status of={status} /> },
  {
    name: 'By',
    cell: (deploy) => <span class="nowrap">{originOf(deploy)}</span>,
  },
  { name: 'Commit', skipSmall: true, cell: ({ sha }) => sha !== '' && <code>{shortSha(sha)}</code> },
  {
    name: 'Took',
    number: true,
    cell: (deploy) => duration(isUnderWay(deploy) ? null : tookMs(deploy, 0)),
  },
  {
    name: 'When',
    number: true,
    cell: (deploy) => (
      <Time at={deploy.started_at} otherwise={isUnderWay(deploy) ? 'queued' : 'never began'} />
    ),
  },
  {
    name: 'What to do',
    silent: true,
    cell: (deploy) =>
      deploy.can_roll_back &&
      deploy.status !== 'live' && (
        <Button
          needs="push"
          look="quiet"
          short
          label="Roll back to this"
          onClick={() => askToRollBack(app, deploy)}
        >
          <IconRotateCcw />
        </Button>
      ),
  },
];

export default function Deploys({ app }: { app: string }) {
  const { list, isNew } = useModel(() => deploysModel(app));
  const [asks, setAsks] = useState<'ref' | 'folder' | null>(null);
  const close = () => setAsks(null);
  const again = async () => {
    const deploy = await api('deploys.create', { id: app });
    open({ name: 'deploy', app, deploy: deploy.id });
  };
  return (
    <>
      <Head title="Deploys">
        <Button needs="push" onClick={() => setAsks('ref')}>
          <IconRocket /> Deploy a tag or commit
        </Button>
        <Button needs="push" onClick={() => setAsks('folder')}>
          <IconFolder /> Upload a folder
        </Button>
        {hasCommits(list.items.value, list.hasMore.value) && (
          <Button needs="push" onClick={again}>
            <IconRefreshCw /> Deploy main again
          </Button>
        )}
      </Head>
      <div class="stack loose">
        <Split app={app} />
        <div class="panel">
          <Listed
            of={list}
            label="Deploys"
            columns={columns(app)}
            isNew={isNew}
            empty={
              <Empty title="No deploys yet" icon={IconRocket}>
                <p>Push to main, or commit in the browser, and the deploy is shown here while it runs.</p>
                <Link to={{ name: 'overview', app }}>How to bring code to this app</Link>
              </Empty>
            }
          />
        </div>
        <Previews app={app} />
      </div>
      {asks === 'ref' && <DeployRef app={app} onClose={close} />}
      {asks === 'folder' && (
        <Dialog title="Deploy a built folder" onClose={close}>
          <FolderDrop app={app} onDeploy={(deploy) => open({ name: 'deploy', app, deploy })} />
        </Dialog>
      )}
    </>
  );
}
