// Layout of every screen with a session: top bar, sections, and connection errors.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { lostSince } from '../api.ts';
import { Mark } from '../parts/code/mark.tsx';
import { Button, Link } from '../parts/controls/button.tsx';
import { Confirm } from '../parts/controls/confirm.tsx';
import { Menu } from '../parts/controls/menu.tsx';
import {
  IconBookOpen,
  IconChevronsUpDown,
  IconLayers,
  IconLogOut,
  IconMenu,
  IconMonitor,
  IconMoon,
  IconSearch,
  IconServer,
  IconSun,
  IconUser,
  IconX,
} from '../parts/icons.tsx';
import { Age } from '../parts/status/time.tsx';
import { role } from '../role.ts';
import { href, type Route, type RouteName, route } from '../router.ts';
import { above, type Screen, screens } from '../screens/index.ts';
import { isAdmin, ownsApps, session, signOut } from '../session.ts';
import { theme } from '../theme.ts';
import { Finder, finding } from './finder.tsx';
import { Keys } from './keys.tsx';
import { docsUrl, groupsOf, routeOf } from './sections.ts';

/** Texts for people who are not admins of the app, by their role. */
const ROLES = {
  view: 'Your role is view: you can look at this app.',
  push: 'Your role is push: you can deploy this app, and see its data.',
};

/** The top bar, the sections, and the screen. */
export function Frame({ shown, children }: { shown: Route | null; children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  const screen = shown === null ? null : (screens[shown.name] as Screen<RouteName>);
  const groups = groupsOf(screen?.place ?? 'home');
  const section = shown === null ? null : (above(shown.name)[0] ?? shown.name);
  const app = shown !== null && 'app' in shown ? shown.app : null;
  useEffect(() => setOpen(false), [route.value]);
  return (
    <div class={['frame', groups.length === 0 && 'wide', isOpen && 'open'].filter(Boolean).join(' ')}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="bar">
        {groups.length > 0 && (
          <span class="menu-button">
            <Button
              look="quiet"
              label={isOpen ? 'Close the menu' : 'Menu'}
              aria-expanded={isOpen}
              onClick={() => setOpen(!isOpen)}
            >
              {isOpen ? <IconX /> : <IconMenu />}
            </Button>
          </span>
        )}
        <Link to={{ name: 'apps' }} class="brand">
          <Mark />
          <span>{machineName()}</span>
        </Link>
        <Crumbs shown={shown} app={app} />
        <button
          type="button"
          class="find"
          onClick={() => {
            finding.value = 'everything';
          }}
          aria-keyshortcuts="Meta+K Control+K"
        >
          <IconSearch />
          <span>Find</span>
          <kbd>{isMac ? '⌘K' : 'Ctrl K'}</kbd>
        </button>
        {isAdmin.value && (
          <Link to={{ name: 'machine' }} class="bar-link" current={screen?.place === 'machine'}>
            <IconServer />
            <span>Machine</span>
          </Link>
        )}
        <a class="bar-link" href={docsUrl(section)} target="_blank" rel="noreferrer">
          <IconBookOpen />
          <span>Docs</span>
        </a>
        <AccountMenu docs={docsUrl(section)} />
      </header>
      {groups.length > 0 && (
        <nav class="nav" aria-label="Sections">
          {role.value !== null && role.value !== 'admin' && app !== null && (
            <p class="own-role">{ROLES[role.value]}</p>
          )}
          {groups.map(({ title, sections }) => (
            <section key={title}>
              <h2>{title}</h2>
              <ul>
                {sections.map((each) => (
                  <li key={each.name}>
                    <Link to={routeOf(each, app)} current={section === each.name}>
                      <each.icon />
                      {each.text}
                    </Link>
                  </li>
                ))}
              </ul>
            </section>
          ))}
        </nav>
      )}
      <main class="main" id="main" tabIndex={-1}>
        {children}
      </main>
      <Lost />
      <Finder />
      <Keys />
      <Confirm />
    </div>
  );
}

const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent);

/** Returns the hostname. `localhost` does not identify a machine, so the product's name replaces it. */
function machineName(): string {
  return location.hostname === 'localhost' ? 'Cellar' : location.hostname;
}

function Crumbs({ shown, app }: { shown: Route | null; app: string | null }) {
  if (shown === null) return <span class="grow" />;
  const titleOf = (name: RouteName) => {
    const { title } = screens[name] as Screen<RouteName>;
    return typeof title === 'string' ? title : title(shown as never);
  };
  return (
    <nav aria-label="Breadcrumb" class="grow">
      <ol class="crumbs">
        {app !== null && (
          <li>
            <Link to={{ name: 'overview', app }}>{app}</Link>
            <Button
              look="quiet"
              short
              label="Switch to another app"
              aria-haspopup="dialog"
              onClick={() => {
                finding.value = 'apps';
              }}
            >
              <IconChevronsUpDown />
            </Button>
          </li>
        )}
        {above(shown.name).map((name) => (
          <li key={name} class="above">
            <Link to={{ path: '', ...shown, name } as Route}>{titleOf(name)}</Link>
          </li>
        ))}
        {shown.name !== 'overview' && shown.name !== 'apps' && (
          <li>
            <span aria-current="page" class="cut">
              {titleOf(shown.name)}
            </span>
          </li>
        )}
      </ol>
    </nav>
  );
}

function AccountMenu({ docs }: { docs: string }) {
  const account = session.value?.account;
  const next = { system: 'light', light: 'dark', dark: 'system' } as const;
  const words = { system: 'Theme: as the system', light: 'Theme: light', dark: 'Theme: dark' };
  const icons = { system: IconMonitor, light: IconSun, dark: IconMoon };
  const chosen = theme.value;
  return (
    <Menu
      button={<IconUser />}
      label={account ? `Account of ${account.name}` : 'Account'}
      look="quiet"
      items={[
        { text: account?.name ?? 'Account', icon: IconUser, href: href({ name: 'account' }) },
        ...(isAdmin.value ? [{ text: 'Machine', icon: IconServer, href: href({ name: 'machine' }) }] : []),
        ...(ownsApps.value
          ? [{ text: 'Dispatch namespaces', icon: IconLayers, href: href({ name: 'dispatch' }) }]
          : []),
        { text: 'Docs of this page', icon: IconBookOpen, href: docs },
        null,
        {
          text: words[chosen],
          icon: icons[chosen],
          run: () => {
            theme.value = next[chosen];
          },
        },
        null,
        { text: 'Sign out', icon: IconLogOut, run: signOut },
      ]}
    />
  );
}

/** Shows for how long the connection has been lost. Data that was read stays visible. */
function Lost() {
  const since = lostSince.value;
  if (since === null) return null;
  return (
    <p class="lost" role="status">
      <span>
        No connection for <Age since={since} />. The page shows the state before that, and reconnects
        automatically.
      </span>
    </p>
  );
}
