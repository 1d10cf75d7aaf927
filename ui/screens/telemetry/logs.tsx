// The log of an app, live.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import type { Level, LogLine } from '../../models/telemetry/log-line.ts';
import { logsModel } from '../../models/telemetry/logs.ts';
import { Button, Link } from '../../parts/controls/button.tsx';
import { Search } from '../../parts/controls/field.tsx';
import { Segments } from '../../parts/controls/tabs.tsx';
import { plural } from '../../parts/format.ts';
import { IconArrowDown, IconPause, IconPlay, IconScrollText, IconX } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty, Failed, Notice, SkeletonRows } from '../../parts/status/states.tsx';
import { queryOf, setQuery } from '../../router.ts';
import { Line } from './logs-line.tsx';

/** Lines rendered at first, and added at each scroll to the top. Rendering all 2,000 would take too long. */
const DRAWN = 100;
/** Distance from the top, in px, at which more lines are rendered. */
const NEAR = 400;

const LEVELS: readonly (readonly [Level | '', string])[] = [
  ['', 'All'],
  ['info', 'Info'],
  ['warn', 'Warnings'],
  ['error', 'Errors'],
];
export default function Logs({ app }: { app: string }) {
  const model = useModel(() => logsModel(app));
  const { filter, shown, waiting, isPaused, isSearching, isRead, isLive, failure, dropped } = model;
  const { search, level, trace, preview } = filter.value;
  const all = shown.value;
  const [drawn, setDrawn] = useState(DRAWN);
  const lines = all.slice(-drawn);
  /** Height of the list, in px, before lines were added above; null when none were added. */
  const heightBefore = useRef<number | null>(null);
  const selected = queryOf('line');
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);

  const toEnd = () => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  };
  useLayoutEffect(() => {
    if (isAtEnd.current && !isPaused.peek()) toEnd();
  }, [all]);
  useLayoutEffect(() => {
    // Keeps the visible lines in place.
    if (box.current && heightBefore.current !== null)
      box.current.scrollTop += box.current.scrollHeight - heightBefore.current;
    heightBefore.current = null;
  }, [drawn]);
  useEffect(() => {
    isAtEnd.current = true;
    setDrawn(DRAWN);
  }, [filter.value]);
  const goOn = () => {
    isAtEnd.current = true;
    setDrawn(DRAWN);
    model.goOn();
    toEnd();
  };
  return (
    <div class="full logs">
      <Head title="Logs">
        <Search label="Search the log" value={queryOf('q')} onValue={(q) => setQuery({ q, line: null })} />
        <Segments
          label="Levels"
          value={level}
          onValue={(level) => setQuery({ level, line: null })}
          options={LEVELS}
        />
        <Button onClick={isPaused.value ? goOn : model.pause} aria-pressed={isPaused.value}>
          {isPaused.value ? <IconPlay /> : <IconPause />}
          {isPaused.value ? 'Go on' : 'Pause'}
        </Button>
      </Head>
      {preview !== '' && (
        <p class="row log-trace">
          The log of the preview <b>{preview}</b>
          <Button short look="quiet" onClick={() => setQuery({ preview: null })}>
            <IconX /> The app's
          </Button>
        </p>
      )}
      {trace !== '' && (
        <p class="row log-trace">
          Only lines of the request
          <Link to={{ name: 'trace', app, trace }} class="mono cut">
            {trace.slice(0, 8)}…
          </Link>
          <Button short look="quiet" onClick={() => setQuery({ trace: null })}>
            <IconX /> Show all
          </Button>
        </p>
      )}
      {failure.value !== null && isRead.value && (
        <Notice look="warn">
          <p>{failure.value.message} What you see may not be the newest.</p>
        </Notice>
      )}
      <div class="panel log">
        <div
          ref={box}
          class="log-box"
          role="log"
          aria-live="off"
          aria-label="Lines of the log, newest last"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, by keyboard too
          tabIndex={0}
          onScroll={({ currentTarget }) => {
            const { scrollHeight, scrollTop, clientHeight } = currentTarget;
            isAtEnd.current = scrollHeight - scrollTop - clientHeight < 32;
            model.scrolled(isAtEnd.current);
            if (isAtEnd.current) setDrawn(DRAWN);
            else if (scrollTop < NEAR && drawn < all.length) {
              heightBefore.current = scrollHeight;
              setDrawn(drawn + DRAWN);
            }
          }}
        >
          {failure.value !== null && !isRead.value ? (
            <Failed failure={failure.value} retry={model.retry} />
          ) : !isRead.value ? (
            <SkeletonRows rows={12} height={16} />
          ) : all.length === 0 && !isSearching.value ? (
            <None app={app} isFiltered={search !== '' || level !== '' || trace !== ''} />
          ) : (
            <>
              {drawn >= all.length && (
                <Older model={model} dropped={dropped.value} box={box} more={() => setDrawn(drawn + DRAWN)} />
              )}
              <ol>
                {lines.map((line, i) => (
                  <Line
                    key={line.id}
                    app={app}
                    line={line}
                    search={search}
                    isOpen={line.id === selected}
                    isNewDay={isNewDay(lines[i - 1], line)}
                  />
                ))}
              </ol>
            </>
          )}
        </div>
        {waiting.value > 0 && (
          <button type="button" class="button primary log-news" onClick={goOn}>
            <IconArrowDown /> {plural(waiting.value, 'new line')}
          </button>
        )}
        <footer class="log-foot small muted" aria-live="polite">
          <span>
            {isSearching.value && isRead.value
              ? search !== ''
                ? `${plural(all.length, 'line')} found so far; searching the last 24 hours…`
                : 'Reading…'
              : `${plural(all.length, 'line')}${search !== '' ? ` with “${search}”` : ''}`}
            {dropped.value > 0 && `, ${plural(dropped.value, 'other')} not shown`}
          </span>
          <span>
            {isPaused.value
              ? 'Paused'
              : isLive.value
                ? 'Live'
                : isRead.value
                  ? 'Not connected; trying again'
                  : ''}
          </span>
        </footer>
      </div>
    </div>
  );
}

function isNewDay(before: LogLine | undefined, line: LogLine): boolean {
  return before !== undefined && new Date(before.at).toDateString() !== new Date(line.at).toDateString();
}

function None({ app, isFiltered }: { app: string; isFiltered: boolean }) {
  if (isFiltered)
    return (
      <Empty title="No line of the last 24 hours matches">
        <Button onClick={() => setQuery({ q: null, level: null, trace: null })}>Show all lines</Button>
      </Empty>
    );
  return (
    <Empty title="Nothing was logged in the last 24 hours" icon={IconScrollText}>
      <p>
        What the app prints with <code>console.log</code> is here as soon as it prints it, and so is what
        Cellar says about it.
      </p>
      <Link to={{ name: 'overview', app }}>Open the app</Link>
    </Empty>
  );
}

/** The top of the list: a button for earlier lines, or a note that they were dropped or that there are none. */
function Older({
  model,
  dropped,
  box,
  more,
}: {
  model: ReturnType<typeof logsModel>;
  dropped: number;
  box: { current: HTMLDivElement | null };
  /** Called after earlier lines were read; renders more lines. */
  more: () => void;
}) {
  const read = async () => {
    const before = box.current!.scrollHeight;
    await model.readOlder();
    more();
    // Keeps the visible lines in place.
    requestAnimationFrame(() => {
      box.current!.scrollTop += box.current!.scrollHeight - before;
    });
  };
  if (dropped > 0)
    return (
      <p class="log-edge muted small">{plural(dropped, 'earlier line')} not shown: search to find them.</p>
    );
  if (!model.hasOlder.value) return <p class="log-edge muted small">The beginning of the last 24 hours</p>;
  return (
    <p class="log-edge">
      <Button short look="quiet" onClick={read}>
        Show earlier lines
      </Button>
    </p>
  );
}
