// The stack of an error.
import type { Occurrence, ShownFrame } from '../../models/telemetry/errors.ts';
import { hintIn } from '../../models/telemetry/stack.ts';
import { plural } from '../../parts/format.ts';
import { Notice } from '../../parts/status/states.tsx';
import { href } from '../../router.ts';

/** The stack frames of the project with their source, then the other frames, collapsed if there are project frames. */
export function Stack({
  app,
  frames,
  occurrence,
}: {
  app: string;
  frames: readonly ShownFrame[];
  occurrence: Occurrence;
}) {
  const own = frames.filter(({ path }) => path !== null);
  const others = frames.filter(({ path }) => path === null);
  if (frames.length === 0) return <pre class="log-lines">{occurrence.stack ?? occurrence.message}</pre>;
  const hint = hintIn(occurrence.stack ?? '');
  return (
    <>
      {hint !== null && <Notice look="warn">{hint}</Notice>}
      <ol>
        {own.map((frame, i) => (
          <li key={`${i} ${frame.place}`} class="frame-of-stack">
            <p>
              <code>{frame.call ?? 'at the top'}</code>{' '}
              <a class="mono" href={href({ name: 'source', app, path: frame.path! }, { line: frame.line })}>
                {frame.place}
              </a>
            </p>
            {frame.source === null ? (
              <div class="snippet" style={{ height: '116px' }} />
            ) : (
              frame.source.length > 0 && (
                // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls sideways, by keyboard too
                <pre class="snippet" tabIndex={0}>
                  {frame.source.map(({ number, text, isNamed }) => (
                    <div key={number} class={isNamed ? 'named' : undefined}>
                      <span class="number">{number}</span>
                      {text}
                    </div>
                  ))}
                </pre>
              )
            )}
          </li>
        ))}
      </ol>
      {others.length > 0 && (
        <details class="other-frames" open={own.length === 0}>
          <summary>{plural(others.length, 'frame')} of packages and the runtime</summary>
          <ol class="mono">
            {others.map(({ call, place }, i) => (
              <li key={`${i} ${place}`}>
                {call ?? 'at the top'} <span class="muted">{place}</span>
              </li>
            ))}
          </ol>
        </details>
      )}
    </>
  );
}
