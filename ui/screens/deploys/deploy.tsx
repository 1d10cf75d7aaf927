// A single deploy: its details, progress and errors.
import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from '../../api.ts';
import { Head } from '../../layout/head.tsx';
import type { DeployLog } from '../../models/deploys/deploy-log.ts';
import { type Deploy, deployModel, isUnderWay, originOf, tookMs } from '../../models/deploys/deploys.ts';
import { Copy } from '../../parts/code/code.tsx';
import { DiffSum, DiffView } from '../../parts/code/diff.tsx';
import { Button, Link, LinkButton } from '../../parts/controls/button.tsx';
import { Tabs } from '../../parts/controls/tabs.tsx';
import { duration, shortSha } from '../../parts/format.ts';
import {
  IconBan,
  IconCircleAlert,
  IconExternalLink,
  IconRefreshCw,
  IconRotateCcw,
  IconSplit,
} from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty, Loaded, Notice, SkeletonRows } from '../../parts/status/states.tsx';
import { Status } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { Places } from '../../parts/tables/places.tsx';
import { open, queryOf } from '../../router.ts';
import { askToRollBack, titleOf } from './deploys.tsx';
import { ShareDialog } from './deploys-split.tsx';

type Model = ReturnType<typeof deployModel>;

/** Interval at which the duration of a running step is updated, in ms. */
const TICK_MS = 250;

export default function DeployScreen({ app, deploy: id }: { app: string; deploy: string }) {
  const model = useModel(() => deployModel(app, id));
  return (
    <Loaded of={model.deploy} shape={<SkeletonRows rows={8} />}>
      {(deploy) => <Shown app={app} deploy={deploy} model={model} />}
    </Loaded>
  );
}

function Shown({ app, deploy, model }: { app: string; deploy: Deploy; model: Model }) {
  const { id, status, sha, error, started_at } = deploy;
  const view = queryOf('view', 'steps');
  // If this is undefined, links lead to main, where files can be edited. Files of another commit are read-only.
  const gitRef = sha === '' || sha === model.tip.value ? undefined : sha;
  const now = useTicks(isUnderWay(deploy));
  const [isSharing, setSharing] = useState(false);
  const go = async (asked: Promise<Deploy>) => open({ name: 'deploy', app, deploy: (await asked).id });
  const tabs = [
    { text: 'Steps', query: {}, current: view !== 'changes' },
    { text: 'Changes', query: { view: 'changes' }, current: view === 'changes' },
  ];
  return (
    <>
      <Head
        title={titleOf(deploy)}
        status={<Status of={status} />}
        about={
          <>
            {originOf(deploy)}
            {sha !== '' && (
              <>
                {' '}
                <Link to={{ name: 'commit', app, sha }} class="mono">
                  {shortSha(sha)}
                </Link>
              </>
            )}
            , <Time at={started_at} otherwise={isUnderWay(deploy) ? 'queued' : 'never began'} />
            {started_at !== null && (
              <>
                , {isUnderWay(deploy) ? 'runs for' : 'took'} {duration(tookMs(deploy, now))}
              </>
            )}{' '}
            · deploy <code>{id}</code>
            <Copy text={id} label="Copy the id of the deploy" short />
          </>
        }
      >
        {isUnderWay(deploy) && (
          <Button needs="push" look="danger" onClick={model.cancel}>
            <IconBan /> Cancel this deploy
          </Button>
        )}
        {status === 'live' && model.served.data.value && (
          <LinkButton look="primary" url={model.served.data.value.url}>
            <IconExternalLink /> Open the app
          </LinkButton>
        )}
        {deploy.can_roll_back && status !== 'live' && (
          <Button needs="push" look="primary" onClick={() => askToRollBack(app, deploy)}>
            <IconRotateCcw /> Roll back to this
          </Button>
        )}
        {deploy.can_roll_back && status !== 'live' && (
          <Button needs="push" onClick={() => setSharing(true)}>
            <IconSplit /> Share requests
          </Button>
        )}
        {!isUnderWay(deploy) && sha !== '' && (
          <Button needs="push" onClick={() => go(api('deploys.create', { id: app, deploy_id: id }))}>
            <IconRefreshCw /> Deploy again
          </Button>
        )}
      </Head>
      {isSharing && <ShareDialog app={app} version={deploy.version.id} onClose={() => setSharing(false)} />}
      <div class="stack">
        {status === 'failed' && (
          <Notice look="danger" icon={IconCircleAlert}>
            <p class="said mono">
              <Places text={error ?? 'The deploy failed.'} app={app} gitRef={gitRef} />
            </p>
            <Still app={app} deploy={id} model={model} />
          </Notice>
        )}
        {status === 'cancelled' && (
          <Notice icon={IconBan}>
            <p>The deploy was {error}.</p>
            <Still app={app} deploy={id} model={model} />
          </Notice>
        )}
        <Tabs
          label="Views of the deploy"
          tabs={tabs.map((tab) => ({ ...tab, to: { name: 'deploy', app, deploy: id } as const }))}
        />
        {view === 'changes' ? (
          <Changes app={app} model={model} />
        ) : (
          <Steps app={app} deploy={deploy} log={model.parsed.value} now={now} gitRef={gitRef} />
        )}
      </div>
    </>
  );
}

/** Shows which deploy is live, for a deploy that failed or was cancelled. */
function Still({ app, deploy, model }: { app: string; deploy: string; model: Model }) {
  const live = model.served.data.value?.live_deploy_id;
  if (live === undefined) return null;
  if (live === null)
    return <p class="muted">The app has no live release yet: none of its deploys went live.</p>;
  const to = { name: 'deploy', app, deploy: live } as const;
  // Ids sort by their time of creation.
  return (
    <p class="muted">
      {live < deploy ? (
        <>
          <Link to={to}>The release before it</Link> still serves.
        </>
      ) : (
        <>
          <Link to={to}>A later release</Link> serves now.
        </>
      )}
    </p>
  );
}

/** Returns the current time, updated while something runs. */
function useTicks(runs: boolean): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!runs) return;
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [runs]);
  return now;
}

function Steps({
  app,
  deploy,
  log,
  now,
  gitRef,
}: {
  app: string;
  deploy: Deploy;
  log: DeployLog | null;
  now: number;
  gitRef: string | undefined;
}) {
  const { steps } = deploy;
  const done = steps.reduce((sum, { duration_ms }) => sum + (duration_ms ?? 0), 0);
  const took = tookMs(deploy, now) ?? 0;
  // The duration of the running step is the deploy's duration without that of the finished steps.
  const msOf = (step: Deploy['steps'][number]) =>
    step.status === 'running' ? Math.max(0, took - done) : step.duration_ms;
  const most = Math.max(1, ...steps.map((step) => msOf(step) ?? 0));
  const hasFailed = steps.some(({ status }) => status === 'failed');
  const end = log?.end ?? [];
  const queued = log?.steps.find(({ name }) => name === 'queued');
  if (steps.length === 0 && isUnderWay(deploy))
    return (
      <div class="panel">
        <Empty title={deploy.status === 'queued' ? 'The deploy is queued' : 'The deploy is about to begin'}>
          <p>{queued ? `It is ${queued.detail}.` : 'The first step is shown here as soon as it runs.'}</p>
        </Empty>
      </div>
    );
  return (
    <div class="panel steps">
      {log !== null && log.before.length > 0 && <Lines app={app} gitRef={gitRef} lines={log.before} />}
      {steps.map((step) => {
        const part = log?.steps.find(({ name }) => name === step.name);
        const isOpen = step.status === 'running' || step.status === 'failed';
        const ms = msOf(step);
        return (
          // A changed key recreates the element, so that it opens or closes even after a person's click.
          <details key={`${step.name} ${isOpen}`} open={isOpen}>
            <summary>
              <span class="name">
                <Status of={step.status} word={step.name} moving={step.status === 'running'} />
                <span class="unseen">{step.status}</span>
              </span>
              <span class="detail muted cut">{part?.detail.replace(/^skipped, /, '')}</span>
              <span class="length" aria-hidden="true">
                <span
                  class={step.status}
                  style={{
                    width: `${step.status === 'skipped' ? 0 : Math.max(1, ((ms ?? 0) / most) * 100)}%`,
                  }}
                />
              </span>
              <span class="number time">{step.status === 'skipped' ? 'skipped' : duration(ms)}</span>
            </summary>
            <Lines
              app={app}
              gitRef={gitRef}
              lines={step.status === 'failed' ? [...(part?.lines ?? []), ...end] : (part?.lines ?? [])}
              follows={step.status === 'running'}
            />
          </details>
        );
      })}
      {!hasFailed && end.length > 0 && <Lines app={app} gitRef={gitRef} lines={end} />}
    </div>
  );
}

/** Lines of a log. Scrolls to new lines until the person scrolls up. */
function Lines({
  app,
  gitRef,
  lines,
  follows = false,
}: {
  app: string;
  gitRef: string | undefined;
  lines: readonly string[];
  follows?: boolean;
}) {
  const ref = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (follows && isAtEnd.current && ref.current) ref.current.scrollTop = ref.current.scrollHeight;
  }, [lines, follows]);
  if (lines.length === 0) return <p class="muted small log-lines">No lines</p>;
  return (
    <pre
      ref={ref}
      class="log-lines"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, by keyboard too
      tabIndex={0}
      onScroll={({ currentTarget: box }) => {
        isAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
      }}
    >
      {lines.map((line, i) => (
        <div key={i}>
          <Places text={line} app={app} gitRef={gitRef} />
        </div>
      ))}
    </pre>
  );
}

function Changes({ app, model }: { app: string; model: Model }) {
  return (
    <Loaded of={model.compared}>
      {(compared) =>
        compared === null ? (
          <Empty title="There is nothing to compare with">
            <p>No deploy with another commit has served before this one.</p>
          </Empty>
        ) : (
          <div class="stack">
            <p class="row">
              <DiffSum files={compared.diff.files} />
              <span class="muted">
                against{' '}
                <Link to={{ name: 'deploy', app, deploy: compared.before.id }}>
                  {titleOf(compared.before)}
                </Link>
                , which served before
              </span>
            </p>
            <DiffView diff={compared.diff} app={app} />
          </div>
        )
      }
    </Loaded>
  );
}
