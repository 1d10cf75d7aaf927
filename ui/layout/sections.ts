// The sections in the sidebar with their shortcuts (`g` and a letter), and the tasks and documentation in the finder.
import {
  type Icon,
  IconActivity,
  IconArrowLeftRight,
  IconBell,
  IconBug,
  IconChartColumn,
  IconDatabase,
  IconFileCode,
  IconGauge,
  IconGlobe,
  IconHistory,
  IconKeyRound,
  IconLayers,
  IconLayoutDashboard,
  IconListFilter,
  IconNetwork,
  IconRocket,
  IconScrollText,
  IconServer,
  IconSettings,
  IconShieldCheck,
  IconSlidersHorizontal,
  IconSparkles,
  IconUser,
  IconUsers,
  IconWaypoints,
} from '../parts/icons.tsx';
import { may, type Role } from '../role.ts';
import type { Route, RouteName } from '../router.ts';
import { seesHosts } from '../session.ts';

export interface Section {
  name: RouteName;
  text: string;
  icon: Icon;
  /** The letter that opens the section after `g`. */
  key?: string;
  /** The role that the section needs, if it is more than `view`. */
  needs?: Role;
  /** Page of the documentation, with an optional anchor: `storage#quotas`. */
  docs: string;
  /** Other words by which the finder finds the section. */
  also?: string;
}

interface Group {
  title: string;
  sections: readonly Section[];
}

const ofApp: readonly Group[] = [
  {
    title: 'Observe',
    sections: [
      {
        name: 'overview',
        text: 'Overview',
        icon: IconLayoutDashboard,
        key: 'o',
        docs: 'readme#states-of-an-app',
        also: 'status',
      },
      {
        name: 'traffic',
        text: 'Traffic',
        icon: IconChartColumn,
        key: 'f',
        docs: 'telemetry#what-is-measured',
        also: 'visitors analytics referrers countries',
      },
      {
        name: 'requests',
        text: 'Requests',
        icon: IconArrowLeftRight,
        key: 'r',
        docs: 'telemetry#traces',
        also: 'access log',
      },
      {
        name: 'logs',
        text: 'Logs',
        icon: IconScrollText,
        key: 'l',
        docs: 'telemetry#the-log-of-an-app',
        also: 'console tail',
      },
      {
        name: 'errors',
        text: 'Errors',
        icon: IconBug,
        key: 'e',
        docs: 'telemetry#errors',
        also: 'exceptions',
      },
      {
        name: 'traces',
        text: 'Traces',
        icon: IconWaypoints,
        key: 't',
        docs: 'telemetry#traces',
        also: 'spans slow',
      },
    ],
  },
  {
    title: 'Deploy',
    sections: [
      {
        name: 'deploys',
        text: 'Deploys',
        icon: IconRocket,
        key: 'd',
        docs: 'projects',
        also: 'releases builds previews history',
      },
      {
        name: 'source',
        text: 'Source',
        icon: IconFileCode,
        key: 's',
        docs: 'projects',
        also: 'code files git commits',
      },
    ],
  },
  {
    title: 'Data',
    sections: [
      {
        name: 'storage',
        text: 'Storage',
        icon: IconDatabase,
        key: 'h',
        needs: 'push',
        docs: 'storage',
        also: 'd1 kv r2 sql databases buckets durable objects workflows',
      },
      {
        name: 'events',
        text: 'Events',
        icon: IconActivity,
        key: 'n',
        docs: 'operations-of-the-api',
      },
      {
        name: 'users',
        text: 'Users',
        icon: IconUsers,
        key: 'u',
        needs: 'push',
        docs: 'operations-of-the-api',
      },
      {
        name: 'insights',
        text: 'Insights',
        icon: IconSparkles,
        key: 'i',
        docs: 'operations-of-the-api',
      },
    ],
  },
  {
    title: 'Settings',
    sections: [
      { name: 'settings', text: 'General', icon: IconSettings, key: ',', docs: 'readme#states-of-an-app' },
      {
        name: 'variables',
        text: 'Variables',
        icon: IconKeyRound,
        key: 'v',
        needs: 'push',
        docs: 'storage#secrets',
        also: 'env environment secrets config',
      },
      {
        name: 'domains',
        text: 'Domains',
        icon: IconGlobe,
        key: 'm',
        docs: 'operations#on-a-server',
        also: 'dns hostname https tls certificate url email mail mx',
      },
      { name: 'limits', text: 'Limits', icon: IconGauge, docs: 'limits', also: 'rate throttle' },
      {
        name: 'alerts',
        text: 'Alerts',
        icon: IconBell,
        needs: 'admin',
        docs: 'alerts',
        also: 'webhook notifications',
      },
      {
        name: 'collaborators',
        text: 'Collaborators',
        icon: IconShieldCheck,
        docs: 'control-ui',
        also: 'invite team members roles access',
      },
    ],
  },
];

const ofMachine: readonly Group[] = [
  {
    title: 'Machine',
    sections: [
      { name: 'machine', text: 'Overview', icon: IconServer, docs: 'operations', also: 'memory disk server' },
      { name: 'hosts', text: 'Hosts', icon: IconNetwork, docs: 'several-machines' },
      { name: 'snapshots', text: 'Snapshots', icon: IconHistory, docs: 'snapshots', also: 'backup restore' },
      {
        name: 'people',
        text: 'People',
        icon: IconUsers,
        docs: 'control-ui',
        also: 'invite accounts members',
      },
      {
        name: 'audit',
        text: 'Audit log',
        icon: IconScrollText,
        docs: 'api#the-audit-log',
        also: 'history who',
      },
      { name: 'machineSettings', text: 'Settings', icon: IconSlidersHorizontal, docs: 'settings' },
    ],
  },
];

/** Sections outside of apps that the finder offers on every screen. Those with a `key` have a shortcut on every screen. */
export const everywhere: readonly Section[] = [
  { name: 'apps', text: 'Apps', icon: IconListFilter, key: 'a', docs: 'readme' },
  {
    name: 'dispatch',
    text: 'Dispatch namespaces',
    icon: IconLayers,
    docs: 'projects#dispatch-namespaces',
    also: 'scripts workers for platforms customers',
  },
  { name: 'account', text: 'Account', icon: IconUser, key: 'y', docs: 'control-ui', also: 'profile passkey' },
  { name: 'machine', text: 'Machine', icon: IconServer, key: 'c', docs: 'operations' },
];

/** An entry of the finder that names something to do, and the section where a person does it. */
export interface Task {
  text: string;
  also: string;
  section: RouteName;
  /** The role that the task needs. */
  needs?: Role;
}

export const tasksOfApp: readonly Task[] = [
  { text: 'Set a secret', also: 'password token', section: 'variables', needs: 'push' },
  { text: 'Set an environment variable', also: 'vars config', section: 'variables', needs: 'push' },
  {
    text: 'Turn maintenance on or off',
    also: 'maintenance page 503 offline',
    section: 'settings',
    needs: 'admin',
  },
  { text: 'Roll back to an earlier deploy', also: 'rollback revert undo', section: 'deploys', needs: 'push' },
  { text: 'Promote a preview', also: 'branch production', section: 'deploys', needs: 'push' },
  { text: 'Run a cron now', also: 'schedule timer trigger', section: 'overview' },
  { text: 'Add a domain', also: 'dns hostname certificate tls https', section: 'domains', needs: 'admin' },
  { text: 'Receive e-mails', also: 'email mail mx address inbox', section: 'domains', needs: 'admin' },
  {
    text: 'Send alerts to a webhook, a chat or by e-mail',
    also: 'notify slack discord ntfy teams email',
    section: 'alerts',
    needs: 'admin',
  },
  { text: 'Invite somebody to this app', also: 'team member', section: 'collaborators', needs: 'admin' },
  { text: 'Stop this app', also: 'pause shut down', section: 'settings', needs: 'admin' },
  { text: 'Rename this app', also: 'name slug', section: 'settings', needs: 'admin' },
  { text: 'Delete this app', also: 'remove destroy', section: 'settings', needs: 'admin' },
];

/** Tasks for every account. */
export const tasksOfAccount: readonly Task[] = [
  { text: 'Make an API key', also: 'token git password', section: 'account' },
  { text: 'Change your password', also: 'passkey two-factor 2fa totp', section: 'account' },
];

/** Tasks for admins of the machine. */
export const tasksOfMachine: readonly Task[] = [
  { text: 'Back up this machine: take a snapshot', also: 'backup export', section: 'snapshots' },
  { text: 'Restore an app from a snapshot', also: 'backup recover undelete', section: 'snapshots' },
  { text: 'Invite somebody to this machine', also: 'account member user', section: 'people' },
];

/** Pages of the documentation that the finder offers: page and title. */
export const docsPages = [
  ['readme', 'Start'],
  ['projects', 'What can be deployed'],
  ['previews', 'Previews'],
  ['storage', 'Storage and secrets'],
  ['telemetry', 'Logs, errors and traces'],
  ['alerts', 'Alerts'],
  ['cli', 'The command line'],
  ['api', 'The API'],
  ['snapshots', 'Backup and restore'],
  ['limits', 'Limits'],
  ['operations', 'Operations'],
  ['settings', 'Settings of the machine'],
] as const;

/** Returns the URL of the documentation about a section; that of the start page for null or another screen. */
export function docsUrl(section: RouteName | null): string {
  const all = [...ofApp, ...ofMachine].flatMap(({ sections }) => sections).concat(everywhere);
  return `/docs/${all.find(({ name }) => name === section)?.docs ?? 'readme'}`;
}

/** Returns the sidebar's groups, without sections that the person may not see. @param place `Screen.place` */
export function groupsOf(place: 'home' | 'app' | 'machine' | 'public'): readonly Group[] {
  if (place === 'app')
    return ofApp.map(({ title, sections }) => ({
      title,
      sections: sections.filter(({ needs }) => needs === undefined || may(needs)),
    }));
  if (place !== 'machine') return [];
  return ofMachine.map(({ title, sections }) => ({
    title,
    sections: sections.filter(({ name }) => name !== 'hosts' || seesHosts.value),
  }));
}

/** Returns the route of a section. @param app the app's slug; null for a section outside of apps */
export function routeOf({ name }: Pick<Section, 'name'>, app: string | null): Route {
  return (app === null ? { name } : name === 'source' ? { name, app, path: '' } : { name, app }) as Route;
}
