// Shows the screen of the route. Loads its chunk first, and keeps the previous screen until then.
import { Component, type ComponentChildren, type ComponentType } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Failure } from '../api.ts';
import { Button } from '../parts/controls/button.tsx';
import { showModal } from '../parts/controls/dialog.tsx';
import { Empty, Failed, SkeletonRows } from '../parts/status/states.tsx';
import { Toasts } from '../parts/status/toast.tsx';
import { href, open, queryOf, type Route, type RouteName, route } from '../router.ts';
import { type Screen, screens } from '../screens/index.ts';
import { isAdmin, isEnded, loadSession, session, takeInvite } from '../session.ts';
import { Frame } from './frame.tsx';

interface Shown {
  route: Route;
  View: ComponentType<Record<string, string>>;
}

/** The whole page. @param props.session resolves when it is known who is signed in */
export function App({ session: first }: { session: Promise<void> }) {
  const [failure, setFailure] = useState<Failure | null>(null);
  useEffect(() => {
    first.catch(setFailure);
  }, []);
  const retry = async () => {
    await loadSession();
    setFailure(null);
  };
  const isKnown = session.value !== undefined;
  return (
    <>
      {isKnown ? <Place /> : failure && <Failed failure={failure} retry={retry} />}
      {isEnded.value && <SignInAgain />}
      <Toasts />
    </>
  );
}

/** The screen of the route, or the sign-in screen. */
function Place() {
  const asked = route.value;
  const isPublic = asked !== null && screens[asked.name].place === 'public';
  const isOut = session.value === null;
  const wanted: Route | null = isOut && !isPublic ? { name: 'signIn' } : asked;
  const { shown, failure } = useShown(wanted);
  // A signed-in person leaves the sign-in screen, and continues with a pending invite. The identity provider sends people
  // to `apps`, so a pending invite continues from there too.
  useEffect(() => {
    if (isOut || (asked?.name !== 'signIn' && asked?.name !== 'apps')) return;
    const token = queryOf('invite') || takeInvite();
    if (token !== '') open({ name: 'invite' }, { query: { token }, replace: true });
    else if (asked.name === 'signIn') open({ name: 'apps' }, { replace: true });
  }, [isOut, asked]);

  if (wanted === null)
    return (
      <Frame shown={null}>
        <Empty title="There is no such page" heading="h1">
          <p>
            No page has this address. <a href={href({ name: 'apps' })}>Go to the apps</a>
          </p>
        </Empty>
      </Frame>
    );
  const current = shown ?? null;
  const screen = screens[(current?.route ?? wanted).name] as Screen<RouteName>;
  const view = current && (
    <Boundary key={keyOf(current.route)}>
      <current.View {...paramsOf(current.route)} />
    </Boundary>
  );
  if (screen.place === 'public') return <main id="main">{view}</main>;
  // Until the sign-in screen has loaded, shows nothing: the screen before it needs a session.
  if (isOut) return failure ? <NewVersion /> : null;
  const forbidden = screen.admin && !isAdmin.value;
  return (
    <Frame key={session.value?.account.id} shown={current?.route ?? wanted}>
      {failure ? <NewVersion /> : forbidden ? <Forbidden /> : (view ?? <SkeletonRows />)}
    </Frame>
  );
}

function keyOf(route: Route): string {
  return href(route);
}

function paramsOf({ name: _, ...params }: Route): Record<string, string> {
  return params;
}

const loaded = new Map<RouteName, Shown['View']>();

function load(name: RouteName): Promise<{ default: Shown['View'] }> {
  return (screens[name] as unknown as { load: () => Promise<{ default: Shown['View'] }> }).load();
}

/** Preloads the likely first screen while the server is asked for the session. */
export function loadAhead(): void {
  const asked = route.peek();
  // Ignores a failure: `useShown` loads the screen again, and shows the failure then.
  if (asked !== null)
    load(asked.name).then(
      ({ default: View }) => loaded.set(asked.name, View),
      () => {},
    );
}

/** Loads the screen of a route. Shows the previous one until then. */
function useShown(wanted: Route | null): { shown: Shown | null; failure: boolean } {
  const [shown, setShown] = useState<Shown | null>(null);
  const [failure, setFailure] = useState(false);
  const isFirst = useRef(true);
  const key = wanted && keyOf(wanted);
  // Runs before paint, so that a loaded screen does not appear one frame late.
  useLayoutEffect(() => {
    if (wanted === null) return;
    let gone = false;
    const show = (View: Shown['View']) => {
      if (gone) return;
      loaded.set(wanted.name, View);
      setFailure(false);
      setShown({ route: wanted, View });
      const { title } = screens[wanted.name] as Screen<RouteName>;
      const said = typeof title === 'string' ? title : title(wanted as never);
      document.title = 'app' in wanted ? `${said} · ${wanted.app} · Cellar` : `${said} · Cellar`;
      // Moves screen readers to the new screen. The browser announces the first one itself.
      if (!isFirst.current) document.getElementById('main')?.focus({ preventScroll: true });
      isFirst.current = false;
    };
    const known = loaded.get(wanted.name);
    if (known) show(known);
    else {
      load(wanted.name).then(
        ({ default: View }) => show(View),
        () => gone || setFailure(true),
      );
    }
    return () => {
      gone = true;
    };
  }, [key]);
  return { shown: wanted === null ? null : shown, failure };
}

/** The sign-in screen, over a screen that keeps unsaved text. It covers the whole page, whose session has ended. */
function SignInAgain() {
  const ref = useRef<HTMLDialogElement>(null);
  const [View, setView] = useState<ComponentType>();
  useEffect(() => {
    const end = showModal(ref.current!);
    load('signIn').then(
      ({ default: View }) => setView(() => View as ComponentType),
      () => setView(() => NewVersion),
    );
    // Listens at the window, because the focus may be outside the dialog. Stops the shortcuts of the screen below.
    const onKey = (event: KeyboardEvent) => {
      event.stopPropagation();
      if (event.key === 'Escape') event.preventDefault();
    };
    addEventListener('keydown', onKey, true);
    return () => {
      removeEventListener('keydown', onKey, true);
      end();
    };
  }, []);
  useEffect(() => ref.current!.querySelector<HTMLElement>('[autofocus]')?.focus(), [View]);
  return (
    // Browsers can close a dialog in ways that a page cannot prevent, such as the second step back in a row on a phone.
    <dialog ref={ref} class="again" aria-label="Sign in again" onClose={() => ref.current?.showModal()}>
      {View && <View />}
    </dialog>
  );
}

function Forbidden() {
  return (
    <Empty title="This is for administrators of the machine" heading="h1">
      <p>
        Ask an administrator for what you need. <a href={href({ name: 'apps' })}>Go to your apps</a>
      </p>
    </Empty>
  );
}

/** Shown when the chunk of a screen cannot be loaded, such as after an update of Cellar. */
function NewVersion() {
  return (
    <Empty title="This page could not be loaded" heading="h1">
      <p>Cellar may have been updated since you opened it, or the connection is gone.</p>
      <Button onClick={() => location.reload()}>Load the page again</Button>
    </Empty>
  );
}

/** An error boundary: an error in one screen does not break the others. */
class Boundary extends Component<{ children: ComponentChildren }, { error: Error | null }> {
  override state = { error: null };

  static override getDerivedStateFromError(error: Error) {
    return { error };
  }

  override componentDidCatch(error: Error) {
    console.error(error);
  }

  override render() {
    const error = this.state.error as Error | null;
    if (error === null) return this.props.children;
    return (
      <div class="failed" role="alert">
        <h2>This page failed</h2>
        <p>The other pages still work. The error of this page: {error.message}</p>
        <Button onClick={() => this.setState({ error: null })}>Try again</Button>
      </div>
    );
  }
}
