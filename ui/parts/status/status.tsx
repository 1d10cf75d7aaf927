// A status with a shape and a word, never only a colour.
import type { Result } from '../../api.ts';
import { Age } from './time.tsx';

type AppStatusName = Result<'apps.get'>['status'];
type DeployStatus = Result<'deploys.rollback'>['status'];
type StepStatus = Result<'deploys.rollback'>['steps'][number]['status'];
export type AnyStatus = AppStatusName | DeployStatus | StepStatus;

type Shape = 'full' | 'hollow' | 'half' | 'moon' | 'dashed' | 'cross' | 'check';

const looks: Record<AnyStatus, { look: string; shape: Shape }> = {
  created: { look: 'quiet', shape: 'dashed' },
  deploying: { look: 'moving', shape: 'half' },
  starting: { look: 'moving', shape: 'half' },
  running: { look: 'running', shape: 'full' },
  sleeping: { look: 'sleeping', shape: 'moon' },
  stopped: { look: 'quiet', shape: 'hollow' },
  crashed: { look: 'danger', shape: 'full' },
  queued: { look: 'quiet', shape: 'dashed' },
  building: { look: 'moving', shape: 'half' },
  live: { look: 'live', shape: 'full' },
  replaced: { look: 'quiet', shape: 'hollow' },
  failed: { look: 'danger', shape: 'cross' },
  superseded: { look: 'quiet', shape: 'hollow' },
  cancelled: { look: 'quiet', shape: 'cross' },
  done: { look: 'done', shape: 'check' },
  skipped: { look: 'quiet', shape: 'dashed' },
};

/** @param props.word replaces the status's name @param props.moving animates the shape: for `running` steps, not for apps */
export function Status({
  of,
  word,
  moving,
  silent,
}: {
  of: AnyStatus;
  word?: string;
  moving?: boolean;
  /** Shows the word to screen readers only. */
  silent?: boolean;
}) {
  const { look, shape } = moving ? ({ look: 'moving', shape: 'half' } as const) : looks[of];
  const words = word ?? of;
  return (
    <span class={`status ${look}`} title={silent ? words : undefined}>
      <Dot shape={shape} />
      <span class={silent ? 'unseen' : undefined}>{words}</span>
    </span>
  );
}

/**
 * The status of an app, in the same words on every screen. `isIdle`: the app has a live release and no process.
 * @param props.since the time at which the app fell asleep
 */
export function AppStatus({
  of,
  isIdle,
  since = null,
  silent = false,
}: {
  of: AppStatusName;
  isIdle: boolean;
  since?: string | null;
  silent?: boolean;
}) {
  if (!isIdle)
    return (
      <>
        <Status of={of} silent={silent} />
        {of === 'sleeping' && since !== null && (
          <span class="muted">
            {' '}
            for <Age since={since} />
          </span>
        )}
      </>
    );
  return (
    <span title="No process runs. The next request starts one, in some tenths of a second.">
      <Status of="sleeping" word="idle" silent={silent} />
    </span>
  );
}

function Dot({ shape }: { shape: Shape }) {
  const line = { fill: 'none', stroke: 'currentColor', 'stroke-width': 1.5 };
  return (
    <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
      {shape === 'full' && <circle cx="6" cy="6" r="4.5" fill="currentColor" />}
      {shape === 'hollow' && <circle cx="6" cy="6" r="4" {...line} />}
      {shape === 'dashed' && <circle cx="6" cy="6" r="4" {...line} stroke-dasharray="2 2.2" />}
      {shape === 'half' && (
        <>
          <circle cx="6" cy="6" r="4" {...line} />
          <path d="M6 2a4 4 0 0 1 0 8z" fill="currentColor" />
        </>
      )}
      {shape === 'moon' && (
        <path d="M10.4 7.3A4.7 4.7 0 0 1 4.7 1.6a4.7 4.7 0 1 0 5.7 5.7z" fill="currentColor" />
      )}
      {shape === 'cross' && (
        <path d="M2.5 2.5l7 7m0-7l-7 7" {...line} stroke-width="1.8" stroke-linecap="round" />
      )}
      {shape === 'check' && (
        <path
          d="M2 6.4l2.8 2.8L10 3.4"
          {...line}
          stroke-width="1.8"
          stroke-linecap="round"
          stroke-linejoin="round"
        />
      )}
    </svg>
  );
}

/** A word on a coloured background, for kinds and states without a shape. */
export function Badge({
  look,
  children,
}: {
  look?: 'danger' | 'warn' | 'accent' | 'sleep';
  children: string;
}) {
  return <span class={look ? `badge ${look}` : 'badge'}>{children}</span>;
}
