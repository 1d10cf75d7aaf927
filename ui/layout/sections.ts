// The sections at the left, and the letters that lead to them after `g`.
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

export interface Section {
  name: RouteName;
  text: string;
  icon: Icon;
  /** After `g`. */
  key?: string;
  /** The role that what it shows needs, where that is more than to look at the app. */
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
      { name: 'snapshots', text: 'Snapshots', icon: IconHistory },
      { name: 'people', text: 'People', icon: IconUsers },
      { name: 'machineSettings', text: 'Settings', icon: IconSlidersHorizontal },
    ],
  },
];

/** Of every screen: where `g` leads besides the sections of the app. */
export const everywhere: readonly Section[] = [
  { name: 'apps', text: 'Apps', icon: IconListFilter, key: 'a' },
  { name: 'account', text: 'Account', icon: IconUser, key: 'y' },
  { name: 'machine', text: 'Machine', icon: IconServer, key: 'c' },
];

/** The groups at the left of a screen in this place, without the sections that one's role does not allow. */
export function groupsOf(place: 'home' | 'app' | 'machine' | 'door'): readonly Group[] {
  if (place === 'app')
    return ofApp.map(({ title, sections }) => ({
      title,
      sections: sections.filter(({ needs }) => needs === undefined || may(needs)),
    }));
  return place === 'machine' ? ofMachine : [];
}

/** The route of a section, in the app that one is in. */
export function routeOf({ name }: Section, app: string | null): Route {
  return (app === null ? { name } : name === 'source' ? { name, app, path: '' } : { name, app }) as Route;
}
