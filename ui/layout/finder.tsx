// ⌘K: a command palette that finds everything by a few letters. It is the app switcher too.
import { signal } from '@preact/signals';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { api, type Result } from '../api.ts';
import { hasCommits } from '../models/deploys/deploys.ts';
import { type Found, keysOf, search } from '../models/find.ts';
import { titleOf } from '../models/title.ts';
import { showModal } from '../parts/controls/dialog.tsx';
import { failed, toast } from '../parts/status/toast.tsx';
import { may } from '../role.ts';
import { follow, href, open, type Route, route } from '../router.ts';
import { above } from '../screens/index.ts';
import { isAdmin, ownsApps, signOut } from '../session.ts';
import { type Theme, theme } from '../theme.ts';
import {
  docsPages,
  everywhere,
  groupsOf,
  routeOf,
  type Section,
  type Task,
  tasksOfAccount,
  tasksOfApp,
  tasksOfMachine,
} from './sections.ts';

/** What the open palette finds; null when it is closed. `apps`: only the other apps, each opened on the current section. */
export const finding = signal<'everything' | 'apps' | null>(null);

/** Page size of the list of apps, and the maximum number of apps read. */
const APPS = { page: 200, most: 2_000 };

/** Slugs of all apps, read when the palette was opened last. */
const slugs = signal<readonly string[]>([]);

/** The current app, if its main branch has a commit to deploy; else null, such as for an app with uploads only. */
const withMain = signal<string | null>(null);

/** The databases, Durable Objects, namespaces, buckets and Workflows of the app that was read last. */
const kept = signal<readonly { app: string; text: string; to: Route }[]>([]);

export function Finder() {
  return finding.value === null ? null : <Open key={finding.value} onlyApps={finding.value === 'apps'} />;
}

function Open({ onlyApps }: { onlyApps: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const [typed, setTyped] = useState('');
  const [at, setAt] = useState(0);
  const id = useId();
  const close = () => {
    finding.value = null;
  };
  useEffect(() => {
    const end = showModal(dialog.current!);
    readSlugs().catch(failed);
    // Ignores failures: the results then lack the storage, or the deploy of main.
    readStorage().catch(() => {});
    readDeploys().catch(() => {});
    return end;
  }, []);
  const found = search(onlyApps ? otherApps(slugs.value) : everything(slugs.value), typed);
  const keys = keysOf(found);
  const label = onlyApps ? 'Switch to another app' : 'Find an app, a place or something to do';
  const chosen = Math.min(at, found.length - 1);
  useEffect(() => {
    list.current?.children[chosen]?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);
  const take = (item: Found | undefined) => {
    if (!item) return;
    close();
    Promise.resolve(item.run()).catch(failed);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const to = { ArrowDown: chosen + 1, ArrowUp: chosen - 1 }[event.key];
    if (to !== undefined) setAt((to + found.length) % Math.max(1, found.length));
    else if (event.key === 'Enter') take(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Esc closes it too
    <dialog
      ref={dialog}
      class="dialog finder"
      aria-label={onlyApps ? 'Switch app' : 'Find'}
      onClose={close}
      onClick={(event) => event.target === dialog.current && close()}
    >
      <search>
        <input
          class="finder-input"
          role="combobox"
          aria-expanded="true"
          aria-controls={id}
          aria-activedescendant={found.length > 0 ? `${id}-${chosen}` : undefined}
          aria-label={label}
          placeholder={label}
          autofocus
          spellcheck={false}
          autocomplete="off"
          value={typed}
          onInput={(event) => {
            setTyped(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={onKeyDown}
        />
      </search>
      {found.length === 0 && <p class="nothing muted">No entry matches these words.</p>}
      <div ref={list} id={id} class="finder-list" role="listbox" aria-label="Found">
        {found.map((item, i) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the input above handles the keys
          <div
            key={keys[i]}
            id={`${id}-${i}`}
            role="option"
            tabIndex={-1}
            aria-selected={i === chosen}
            onClick={() => take(item)}
            onPointerMove={() => setAt(i)}
          >
            <span>{item.text}</span>
            <span class="muted small">{item.group}</span>
          </div>
        ))}
      </div>
    </dialog>
  );
}

async function readSlugs(): Promise<void> {
  const found: string[] = [];
  let cursor: string | null | undefined;
  while (cursor !== null && found.length < APPS.most) {
    const read: Result<'apps.list'> = await api('apps.list', { limit: APPS.page, cursor });
    found.push(...read.items.map(({ slug }) => slug));
    cursor = read.next_cursor;
  }
  slugs.value = found;
}

async function readStorage(): Promise<void> {
  const here = route.peek();
  if (here === null || !('app' in here) || !may('push')) return;
  const { app } = here;
  const [{ databases, classes, namespaces, buckets }, workflows] = await Promise.all([
    api('storage.overview', { id: app }),
    api('workflows.list', { id: app }),
  ]);
  kept.value = [
    ...databases.map((each) => ({
      text: `Database ${titleOf(each)}`,
      to: { name: 'database', app, database: each.id } as const,
    })),
    ...classes.map(({ class_name }) => ({
      text: `Durable Objects ${class_name}`,
      to: { name: 'objects', app, class: class_name } as const,
    })),
    ...namespaces.map((each) => ({
      text: `Namespace ${titleOf(each)}`,
      to: { name: 'namespace', app, namespace: each.id } as const,
    })),
    ...buckets.map(({ bucket }) => ({
      text: `Bucket ${bucket}`,
      to: { name: 'bucket', app, bucket, prefix: '' } as const,
    })),
    ...workflows.items.map(({ name }) => ({
      text: `Workflow ${name}`,
      to: { name: 'workflow', app, workflow: name } as const,
    })),
  ].map((each) => ({ app, ...each }));
}

/** Reads whether the current app has a commit on main to deploy. */
async function readDeploys(): Promise<void> {
  const here = route.peek();
  if (here === null || !('app' in here) || !may('push')) return;
  const { app } = here;
  const { items, next_cursor } = await api('deploys.list', { id: app, limit: 30 });
  withMain.value = hasCommits(items, next_cursor !== null) ? app : null;
}

const go = (to: Route) => () => follow(href(to));

/** Returns all apps but the current one. Each opens on the section that is shown now. */
function otherApps(apps: readonly string[]): Found[] {
  const here = route.value;
  if (here === null || !('app' in here)) return [];
  const [name = here.name] = above(here.name);
  const section = groupsOf('app')
    .flatMap(({ sections }) => sections)
    .find((each) => each.name === name);
  return apps
    .filter((slug) => slug !== here.app)
    .map((slug) => ({
      group: 'app',
      text: slug,
      run: go(section ? routeOf(section, slug) : { name: 'overview', app: slug }),
    }));
}

/** Returns everything in the order shown before typing: the current app, the other apps, the rest. */
function everything(apps: readonly string[]): Found[] {
  const here = route.value;
  const app = here !== null && 'app' in here ? here.app : null;
  const place = (section: Section, group: string, slug: string | null): Found => ({
    group,
    text: section.text,
    ...(section.also !== undefined && { also: section.also }),
    run: go(routeOf(section, slug)),
  });
  const task = ({ text, also, section: name }: Task, group: string, slug: string | null): Found => ({
    group,
    text,
    also,
    run: go(routeOf({ name }, slug)),
  });
  const sectionsOf = (slug: string): Found[] =>
    groupsOf('app').flatMap(({ sections }) => sections.map((section) => place(section, slug, slug)));
  const tasksOf = (slug: string): Found[] =>
    tasksOfApp.filter(({ needs }) => needs === undefined || may(needs)).map((each) => task(each, slug, slug));
  const places = everywhere.filter(({ name }) => name !== 'machine' || isAdmin.value);
  return [
    ...(app === null
      ? []
      : [...sectionsOf(app), ...keptBy(app), ...actionsOf(app), ...tasksOf(app)].map((item) => ({
          ...item,
          near: true,
        }))),
    ...apps
      .filter((slug) => slug !== app)
      .map((slug) => ({ group: 'app', text: slug, run: go({ name: 'overview', app: slug }) })),
    ...places.map((section) => place(section, 'Cellar', null)),
    ...tasksOfAccount.map((each) => task(each, 'Account', null)),
    ...(ownsApps.value
      ? [{ group: 'Cellar', text: 'New app', also: 'create make', run: go({ name: 'new' }) }]
      : []),
    ...(isAdmin.value
      ? [
          ...groupsOf('machine').flatMap(({ sections }) =>
            sections
              .filter(({ name }) => name !== 'machine')
              .map((section) => place(section, 'Machine', null)),
          ),
          ...tasksOfMachine.map((each) => task(each, 'Machine', null)),
        ]
      : []),
    ...(['light', 'dark', 'system'] as const).map((each) => ({
      group: 'Cellar',
      text: each === 'system' ? 'Theme as the system' : `Theme: ${each}`,
      run: () => setTheme(each),
    })),
    { group: 'Cellar', text: 'Sign out', also: 'logout log out leave', run: signOut },
    ...docsPages.map(([page, title]) => ({
      group: 'Docs',
      text: title,
      also: `help manual ${page}`,
      run: () => window.open(`/docs/${page}`, '_blank', 'noreferrer'),
    })),
    ...apps.filter((slug) => slug !== app).flatMap(sectionsOf),
  ];
}

function setTheme(to: Theme) {
  theme.value = to;
}

function keptBy(app: string): Found[] {
  return kept.value
    .filter((each) => each.app === app)
    .map(({ text, to }) => ({ group: app, text, run: () => follow(href(to)) }));
}

function actionsOf(app: string): Found[] {
  if (!may('push')) return [];
  return [
    ...(withMain.value === app
      ? [
          {
            group: app,
            text: 'Deploy main again',
            also: 'build release',
            run: async () =>
              open({ name: 'deploy', app, deploy: (await api('deploys.create', { id: app })).id }),
          },
        ]
      : []),
    {
      group: app,
      text: 'Put to sleep',
      run: async () => {
        await api('apps.sleep', { id: app });
        toast(`${app} is sleeping`);
      },
    },
    ...(may('admin')
      ? [
          {
            group: app,
            text: 'Wake or start',
            run: async () => {
              await api('apps.update', { id: app, desired_state: 'running' });
              toast(`${app} is running`);
            },
          },
        ]
      : []),
  ];
}
