// States of a view without data: loading, empty, or failed.
import type { ComponentChildren } from 'preact';
import type { Failure } from '../../api.ts';
import type { Resource } from '../../live.ts';
import { Button } from '../controls/button.tsx';
import { type Icon, IconCircleAlert, IconLock, IconWifiOff } from '../icons.tsx';

/** A grey placeholder for text, shown after 300 ms. */
export function Skeleton({
  width = '100%',
  height = 16,
}: {
  width?: number | string;
  height?: number | string;
}) {
  return <span class="skeleton" style={{ width: length(width), height: length(height) }} />;
}

/** Returns a CSS length. A number is in px. */
function length(value: number | string): string {
  return typeof value === 'number' ? `${value}px` : value;
}

/** A skeleton of a list. */
export function SkeletonRows({ rows = 5, height = 20 }: { rows?: number; height?: number }) {
  return (
    <div class="stack" style={{ padding: '16px' }} role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => (
        <Skeleton key={i} height={height} width={`${92 - ((i * 17) % 40)}%`} />
      ))}
    </div>
  );
}

/** An empty state. `title` says what is missing, `children` how to get it. */
export function Empty({
  title,
  heading: Heading = 'h2',
  icon: Sign,
  children,
}: {
  title: string;
  /** `h1` when it is the page's only content. */
  heading?: 'h1' | 'h2';
  icon?: Icon;
  children?: ComponentChildren;
}) {
  return (
    <div class="empty">
      {Sign && <Sign size={24} />}
      <Heading>{title}</Heading>
      {children}
    </div>
  );
}

/** An error state: why data could not be read, and a button that retries. */
export function Failed({ failure, retry }: { failure: Failure; retry?: () => unknown }) {
  const { title, icon: Sign, words } = said(failure);
  return (
    <div class="failed" role="alert">
      <Sign size={24} />
      <h2>{title}</h2>
      <p>{words}</p>
      {failure.code === 'app_not_found' && <a href="/">Go to the apps</a>}
      {retry && failure.code !== 'forbidden' && !isMissing(failure) && (
        <Button onClick={() => retry()}>Try again</Button>
      )}
    </div>
  );
}

function isMissing({ code }: Failure): boolean {
  return code?.endsWith('_not_found') ?? false;
}

function said(failure: Failure): { title: string; icon: Icon; words: string } {
  const { code, message } = failure;
  if (code === 'forbidden')
    return {
      title: 'Your role does not allow this',
      icon: IconLock,
      words: `${message} An administrator of the app can give you another role.`,
    };
  if (code === 'offline') return { title: 'No connection', icon: IconWifiOff, words: message };
  if (code === 'host_unavailable' || code === 'app_unavailable')
    return { title: 'No answer', icon: IconCircleAlert, words: message };
  if (code === 'app_not_found')
    return {
      title: 'Not here',
      icon: IconCircleAlert,
      words: `${message} It may have another name now, or have been deleted.`,
    };
  if (isMissing(failure)) return { title: 'Not here', icon: IconCircleAlert, words: message };
  return { title: 'The data could not be read', icon: IconCircleAlert, words: message };
}

/** A highlighted sentence in a view. */
export function Notice({
  look,
  icon: Sign,
  children,
}: {
  look?: 'danger' | 'warn';
  icon?: Icon;
  children: ComponentChildren;
}) {
  return (
    <div class={look ? `notice ${look}` : 'notice'} role={look === 'danger' ? 'alert' : undefined}>
      {Sign && <Sign />}
      <div class="grow">{children}</div>
    </div>
  );
}

/**
 * Shows a resource. Before the first data, shows `shape` (a skeleton of the same layout) or the error. When a later read
 * fails, the data stays, with a grey edge.
 */
export function Loaded<Data>({
  of,
  shape,
  children,
}: {
  of: Resource<Data>;
  shape?: ComponentChildren;
  children: (data: Data) => ComponentChildren;
}) {
  const data = of.data.value;
  const failure = of.failure.value;
  // After a 403 or 404, shows the error instead of data read before.
  const isGone = failure?.status === 403 || failure?.status === 404;
  if (data === null || isGone)
    return failure ? <Failed failure={failure} retry={of.refresh} /> : (shape ?? <SkeletonRows />);
  return <div class={failure ? 'stale' : undefined}>{children(data)}</div>;
}
