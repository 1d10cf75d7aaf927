// An app's overview: its health and recent changes.
import { useEffect, useRef } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { Start } from '../../layout/start.tsx';
import { type OverviewModel, overviewModel } from '../../models/telemetry/overview.ts';
import { Sparkline } from '../../parts/charts/sparkline.tsx';
import { Copy } from '../../parts/code/code.tsx';
import { copyText } from '../../parts/code/copy-text.ts';
import { Button, Link, LinkButton } from '../../parts/controls/button.tsx';
import { Menu } from '../../parts/controls/menu.tsx';
import { dayAndClock, firstLine, person, plural } from '../../parts/format.ts';
import {
  IconCircleAlert,
  IconEllipsis,
  IconExternalLink,
  IconMoon,
  IconPlay,
  IconPower,
  IconRocket,
  IconSettings,
} from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty, Loaded, Notice, Skeleton, SkeletonRows } from '../../parts/status/states.tsx';
import { AppStatus, Status } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { may } from '../../role.ts';
import { href, open } from '../../router.ts';
import { askToStop } from '../settings/ask-to-stop.ts';
import { Crons } from './overview-crons.tsx';
import { Figures } from './overview-figures.tsx';

export default function Overview({ app: slug }: { app: string }) {
  const model = useModel(() => overviewModel(slug));
  const toDeploy = (deploy: string) => open({ name: 'deploy', app: slug, deploy });
  const deploys = model.deploys.data.value;
  const first = deploys?.[0];
  // While the app has no deploys, waits for the first one, and then opens it.
  const wasEmpty = useRef(false);
  useEffect(() => {
    if (deploys?.length === 0) wasEmpty.current = true;
    else if (wasEmpty.current && first) toDeploy(first.id);
  }, [deploys]);
  return (
    <Loaded of={model.app} shape={<Shape />}>
      {(app) => (
        <>
          <Title model={model} app={app} />
          {app.last_error && app.status === 'crashed' && (
            <Notice look="danger" icon={IconCircleAlert}>
              The app crashed: {app.last_error} The next request tries to start it again.
            </Notice>
          )}
          {app.maintenance && (
            <Notice look="warn" icon={IconCircleAlert}>
              Maintenance is on: visitors get a page with 503, and no request reaches the app.{' '}
              <Link to={{ name: 'settings', app: slug }}>Turn it off in the settings</Link>
            </Notice>
          )}
          {app.warnings.length > 0 && (
            <Notice look="warn" icon={IconCircleAlert}>
              {app.warnings.map((warning) => (
                <p key={warning}>{warning}</p>
              ))}
            </Notice>
          )}
          {deploys === null ? (
            <SkeletonRows />
          ) : deploys.length === 0 ? (
            <Start slug={slug} onDeploy={toDeploy} />
          ) : (
            <div class="stack overview">
              {first?.status === 'failed' && (
                <Notice look="danger" icon={IconCircleAlert}>
                  <p>
                    <b>The last deploy failed{first.error ? ':' : '.'}</b>{' '}
                    {first.error && `${firstLine(first.error).replace(/[.:]$/, '')}. `}
                    {app.live_deploy_id !== null && 'The release before it still serves. '}
                    <Link to={{ name: 'deploy', app: slug, deploy: first.id }}>See where it stopped</Link>
                  </p>
                </Notice>
              )}
              <Figures model={model} />
              <div class="halves">
                <LastDeploys model={model} slug={slug} />
                <OpenErrors model={model} slug={slug} />
              </div>
              <Crons model={model} slug={slug} />
              <LastLines model={model} slug={slug} />
            </div>
          )}
        </>
      )}
    </Loaded>
  );
}

type App = NonNullable<OverviewModel['app']['data']['value']>;

function Title({ model, app }: { model: OverviewModel; app: App }) {
  const { slug, status, url, git_url, asleep_since, live_deploy_id, home, dispatch, owner } = app;
  const isAsleep = status === 'sleeping';
  const isStopped = status === 'stopped';
  const hasCode = model.deploys.data.value?.length !== 0;
  const deploy = async () => open({ name: 'deploy', app: slug, deploy: await model.deploy() });
  return (
    <Head
      title={dispatch?.script ?? slug}
      status={<AppStatus of={status} isIdle={model.isIdle.value} since={asleep_since} />}
      about={
        <span class="address">
          {dispatch === null ? (
            <>
              <a href={url} target="_blank" rel="noreferrer">
                {url.replace(/^https?:\/\//, '')}
              </a>
              <Copy text={url} label="Copy the address" short />
            </>
          ) : (
            <span>
              A script of the dispatch namespace{' '}
              <Link to={{ name: 'scripts', dispatch: dispatch.namespace }} query={{ owner }}>
                {dispatch.namespace}
              </Link>
            </span>
          )}
          {home && <span class="muted">on {home.name}</span>}
        </span>
      }
    >
      {dispatch === null && (
        <LinkButton url={url}>
          <IconExternalLink /> Open
        </LinkButton>
      )}
      {(isAsleep || isStopped) && (
        <Button needs="admin" onClick={() => model.run('running')}>
          <IconPlay /> {isAsleep ? 'Wake' : 'Start'}
        </Button>
      )}
      {!isAsleep && !isStopped && live_deploy_id !== null && (
        <Button needs="push" onClick={model.sleep}>
          <IconMoon /> Sleep
        </Button>
      )}
      {hasCode && (
        <Button needs="push" onClick={deploy}>
          <IconRocket /> Deploy
        </Button>
      )}
      <Menu
        button={<IconEllipsis />}
        label="More"
        items={[
          {
            text: 'Copy the git address',
            run: () => copyText(git_url).then(() => toast('Copied')),
          },
          { text: 'Settings', icon: IconSettings, href: href({ name: 'settings', app: slug }) },
          ...(isStopped || !may('admin')
            ? []
            : [
                null,
                {
                  text: 'Stop the app',
                  icon: IconPower,
                  run: () =>
                    askToStop(slug, async () => {
                      await model.run('stopped');
                      toast(`${slug} is stopped`);
                    }),
                },
              ]),
        ]}
      />
    </Head>
  );
}

function LastDeploys({ model, slug }: { model: OverviewModel; slug: string }) {
  return (
    <section class="panel">
      <header>
        <h2>Last deploys</h2>
        <Link to={{ name: 'deploys', app: slug }}>All</Link>
      </header>
      <Loaded of={model.deploys}>
        {(deploys) => (
          <ul class="lines">
            {deploys.slice(0, 5).map(({ id, message, author, status, finished_at, started_at }) => (
              <li key={id} data-row>
                <Status of={status} silent />
                <Link to={{ name: 'deploy', app: slug, deploy: id }} class="cut grow main-cell">
                  {firstLine(message)}
                </Link>
                <span class="muted small nowrap">
                  {person(author)}, <Time at={finished_at ?? started_at} otherwise="queued" />
                </span>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  );
}

function OpenErrors({ model, slug }: { model: OverviewModel; slug: string }) {
  return (
    <section class="panel">
      <header>
        <h2>Open errors</h2>
        <Link to={{ name: 'errors', app: slug }}>All</Link>
      </header>
      <Loaded of={model.errors}>
        {({ items }) =>
          items.length === 0 ? (
            <p class="nothing muted">No open errors. Errors that the app does not catch are grouped here.</p>
          ) : (
            <ul class="lines">
              {items.map(({ fingerprint, kind, message, count, sparkline, last_seen_at }) => (
                <li key={fingerprint} data-row>
                  <Link to={{ name: 'error', app: slug, fingerprint }} class="cut grow main-cell">
                    {kind}: {firstLine(message)}
                  </Link>
                  <Sparkline
                    values={sparkline}
                    label={`${plural(count, 'time')}, by hour of the last day`}
                    colour="danger"
                    width={64}
                    height={18}
                  />
                  <span class="muted small nowrap">
                    {plural(count, 'time')}, <Time at={last_seen_at} />
                  </span>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </section>
  );
}

function LastLines({ model, slug }: { model: OverviewModel; slug: string }) {
  return (
    <section class="panel">
      <header>
        <h2>Last lines of the log</h2>
        <Link to={{ name: 'logs', app: slug }}>Follow</Link>
      </header>
      <Loaded of={model.lines}>
        {(lines) =>
          lines.length === 0 ? (
            <Empty title="Nothing logged in the last 24 hours">
              <p>
                What the app writes with <code>console.log</code> is shown here.
              </p>
            </Empty>
          ) : (
            <ol class="last-lines mono">
              {lines.map(({ id, at, level, text }) => (
                <li key={id} class={level}>
                  <time dateTime={at}>{dayAndClock(at)}</time>
                  <span class="level">{level}</span>
                  <span class="cut">{firstLine(text)}</span>
                </li>
              ))}
            </ol>
          )
        }
      </Loaded>
    </section>
  );
}

function Shape() {
  return (
    <div class="stack">
      <Skeleton width={220} height={28} />
      <Skeleton height={92} />
      <Skeleton height={260} />
    </div>
  );
}
