// The sections in the sidebar, and their letters after `g`.
import {
  type Icon,
  IconActivity,
  IconBell,
  IconBug,
  IconDatabase,
  IconFileCode,
  IconGauge,
  IconGlobe,
  IconHistory,
  IconKeyRound,
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
  /** Letter after `g`. */
  key?: string;
  /** The role that the section needs, if it is more than `view`. */
  needs?: Role;
}

interface Group {
  title: string;
  sections: readonly Section[];
}

const ofApp: readonly Group[] = [
  {
    title: 'See',
    sections: [
      { name: 'overview', text: 'Overview', icon: IconLayoutDashboard, key: 'o' },
      { name: 'logs', text: 'Logs', icon: IconScrollText, key: 'l' },
      { name: 'errors', text: 'Errors', icon: IconBug, key: 'e' },
      { name: 'traces', text: 'Traces', icon: IconWaypoints, key: 't' },
    ],
  },
  {
    title: 'Change',
    sections: [
      { name: 'deploys', text: 'Deploys', icon: IconRocket, key: 'd' },
      { name: 'source', text: 'Source', icon: IconFileCode, key: 's' },
      { name: 'variables', text: 'Variables', icon: IconKeyRound, key: 'v', needs: 'push' },
      { name: 'domains', text: 'Domains', icon: IconGlobe, key: 'm' },
    ],
  },
  {
    title: 'Hold',
    sections: [
      { name: 'storage', text: 'Storage', icon: IconDatabase, key: 'h', needs: 'push' },
      { name: 'events', text: 'Events', icon: IconActivity, key: 'n' },
      { name: 'users', text: 'Users', icon: IconUsers, key: 'u', needs: 'push' },
      { name: 'insights', text: 'Insights', icon: IconSparkles, key: 'i' },
    ],
  },
  {
    title: 'Settings',
    sections: [
      { name: 'settings', text: 'General', icon: IconSettings, key: ',' },
      { name: 'limits', text: 'Limits', icon: IconGauge },
      { name: 'alerts', text: 'Alerts', icon: IconBell, needs: 'admin' },
      { name: 'collaborators', text: 'Collaborators', icon: IconShieldCheck },
    ],
  },
];

const ofMachine: readonly Group[] = [
  {
    title: 'Machine',
    sections: [
      { name: 'machine', text: 'Now', icon: IconServer },
      { name: 'hosts', text: 'Hosts', icon: IconNetwork },
      { name: 'snapshots', text: 'Snapshots', icon: IconHistory },
      { name: 'people', text: 'People', icon: IconUsers },
      { name: 'audit', text: 'Audit log', icon: IconScrollText },
      { name: 'machineSettings', text: 'Settings', icon: IconSlidersHorizontal },
    ],
  },
];

/** Sections that every screen can reach with `g`, besides those of the app. */
export const everywhere: readonly Section[] = [
  { name: 'apps', text: 'Apps', icon: IconListFilter, key: 'a' },
  { name: 'account', text: 'Account', icon: IconUser, key: 'y' },
  { name: 'machine', text: 'Machine', icon: IconServer, key: 'c' },
];

/** Returns the sidebar's groups for a screen, without sections that the person may not see. */
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

/** Returns the route of a section, in the current app. */
export function routeOf({ name }: Section, app: string | null): Route {
  return (app === null ? { name } : name === 'source' ? { name, app, path: '' } : { name, app }) as Route;
}
