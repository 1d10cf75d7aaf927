// The screen of every route: its module, title and layout. A route without one does not compile.
import type { ComponentType } from 'preact';
import type { ParamsOf, RouteName } from '../router.ts';
import Apps from './overview/apps.tsx';

export interface Screen<Name extends RouteName> {
  /** Loads the screen's chunk. Its default export is the screen. */
  load: () => Promise<{ default: ComponentType<ParamsOf<Name>> }>;
  /** The title, in the window and in the breadcrumb. */
  title: string | ((params: ParamsOf<Name>) => string);
  /** `app` and `machine` show their sections in the sidebar. `public` has no frame, and needs no session. */
  place: 'home' | 'app' | 'machine' | 'public';
  /** The parent screen, in the breadcrumb and the sections. This screen's path must have the parent's parameters. */
  above?: RouteName;
  /** Only for admins of the machine. */
  admin?: true;
}

export const screens: { [Name in RouteName]: Screen<Name> } = {
  // Part of the first script, because people usually open this screen first. That saves a request.
  apps: { load: async () => ({ default: Apps }), title: 'Apps', place: 'home' },
  new: { load: () => import('./overview/new.tsx'), title: 'New app', place: 'home' },
  overview: { load: () => import('./overview/overview.tsx'), title: 'Overview', place: 'app' },
  traffic: { load: () => import('./telemetry/traffic.tsx'), title: 'Traffic', place: 'app' },
  requests: { load: () => import('./telemetry/requests.tsx'), title: 'Requests', place: 'app' },
  logs: { load: () => import('./telemetry/logs.tsx'), title: 'Logs', place: 'app' },
  errors: { load: () => import('./telemetry/errors.tsx'), title: 'Errors', place: 'app' },
  error: { load: () => import('./telemetry/error.tsx'), title: 'Error', place: 'app', above: 'errors' },
  traces: { load: () => import('./telemetry/traces.tsx'), title: 'Traces', place: 'app' },
  trace: { load: () => import('./telemetry/trace.tsx'), title: 'Trace', place: 'app', above: 'traces' },
  insights: { load: () => import('./telemetry/insights.tsx'), title: 'Insights', place: 'app' },
  deploys: { load: () => import('./deploys/deploys.tsx'), title: 'Deploys', place: 'app' },
  deploy: { load: () => import('./deploys/deploy.tsx'), title: 'Deploy', place: 'app', above: 'deploys' },
  source: { load: () => import('./source/source.tsx'), title: 'Source', place: 'app' },
  commit: { load: () => import('./source/commit.tsx'), title: 'Commit', place: 'app', above: 'source' },
  variables: { load: () => import('./settings/variables.tsx'), title: 'Variables and secrets', place: 'app' },
  domains: { load: () => import('./settings/domains.tsx'), title: 'Domains', place: 'app' },
  storage: { load: () => import('./storage/storage.tsx'), title: 'Storage', place: 'app' },
  database: {
    load: () => import('./storage/database.tsx'),
    title: ({ database }) => database,
    place: 'app',
    above: 'storage',
  },
  objects: {
    load: () => import('./storage/objects.tsx'),
    title: ({ class: name }) => name,
    place: 'app',
    above: 'storage',
  },
  object: {
    load: () => import('./storage/object.tsx'),
    title: 'Durable Object',
    place: 'app',
    above: 'objects',
  },
  namespace: {
    load: () => import('./storage/namespace.tsx'),
    title: ({ namespace }) => namespace,
    place: 'app',
    above: 'storage',
  },
  workflow: {
    load: () => import('./storage/workflow.tsx'),
    title: ({ workflow }) => workflow,
    place: 'app',
    above: 'storage',
  },
  instance: {
    load: () => import('./storage/instance.tsx'),
    title: ({ instance }) => instance,
    place: 'app',
    above: 'workflow',
  },
  bucket: {
    load: () => import('./storage/bucket.tsx'),
    title: ({ bucket }) => bucket,
    place: 'app',
    above: 'storage',
  },
  events: { load: () => import('./telemetry/events.tsx'), title: 'Events', place: 'app' },
  users: { load: () => import('./telemetry/users.tsx'), title: 'Users', place: 'app' },
  user: {
    load: () => import('./telemetry/user.tsx'),
    title: ({ user }) => user,
    place: 'app',
    above: 'users',
  },
  limits: { load: () => import('./settings/limits.tsx'), title: 'Limits', place: 'app' },
  alerts: { load: () => import('./settings/alerts.tsx'), title: 'Alerts', place: 'app' },
  collaborators: { load: () => import('./account/collaborators.tsx'), title: 'Collaborators', place: 'app' },
  settings: { load: () => import('./settings/settings.tsx'), title: 'Settings', place: 'app' },
  dispatch: {
    load: () => import('./dispatch/namespaces.tsx'),
    title: 'Dispatch namespaces',
    place: 'home',
  },
  scripts: {
    load: () => import('./dispatch/scripts.tsx'),
    title: ({ dispatch }) => dispatch,
    place: 'home',
    above: 'dispatch',
  },
  account: { load: () => import('./account/account.tsx'), title: 'Account', place: 'home' },
  ownAudit: {
    load: () => import('./account/audit.tsx'),
    title: 'What you changed',
    place: 'home',
    above: 'account',
  },
  machine: { load: () => import('./machine/machine.tsx'), title: 'Machine', place: 'machine', admin: true },
  hosts: { load: () => import('./machine/hosts.tsx'), title: 'Hosts', place: 'machine', admin: true },
  snapshots: {
    load: () => import('./machine/snapshots.tsx'),
    title: 'Snapshots',
    place: 'machine',
    admin: true,
  },
  people: {
    load: () => import('./account/people.tsx'),
    title: 'People and invites',
    place: 'machine',
    admin: true,
  },
  audit: { load: () => import('./account/audit.tsx'), title: 'Audit log', place: 'machine', admin: true },
  machineSettings: {
    load: () => import('./machine/machine-settings.tsx'),
    title: 'Settings of the machine',
    place: 'machine',
    admin: true,
  },
  signIn: { load: () => import('./account/sign-in.tsx'), title: 'Sign in', place: 'public' },
  welcome: { load: () => import('./account/welcome.tsx'), title: 'Welcome', place: 'public' },
  invite: { load: () => import('./account/invite.tsx'), title: 'Invitation', place: 'public' },
};

/** Returns the ancestors of a screen, the outermost first. */
export function above(name: RouteName): RouteName[] {
  const next = (screens[name] as Screen<RouteName>).above;
  return next === undefined ? [] : [...above(next), next];
}
