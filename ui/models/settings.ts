// Settings of an app: variables, secrets, domains, e-mail addresses, TCP ports, limits, maintenance, builds, alerts,
// collaborators, and the app itself.
import { signal } from '@preact/signals';
import { formatOf } from '../../handlers/contract/telemetry/alert-format.ts';
import { api, type Failure, type Params, type Result } from '../api.ts';
import { resource } from '../live.ts';
import type { MadeLink } from './account/invites.ts';
import { oneApp } from './apps.ts';
import { pages } from './pages.ts';

type Item<List> = List extends { items: (infer Each)[] } ? Each : never;
export type Variable = Item<Result<'env.list'>>;
export type WorkerVar = Item<Result<'vars.list'>>;
export type Secret = Item<Result<'secrets.list'>>;
export type Binding = Item<Result<'bindings.list'>>;
export type Domain = Item<Result<'domains.list'>>;
export type DomainState = Result<'domains.check'>;
export type MailRoute = Item<Result<'mail.routes.list'>>;
export type TcpPort = Item<Result<'tcp.ports.list'>>;
export type Limits = Result<'limits.get'>;
export type Builds = Result<'builds.get'>;
export type Maintenance = Result<'maintenance.get'>;
export type Alert = Item<Result<'alerts.list'>>;
export type AlertChange = Params<'alerts.set'>;
export type Collaborator = Item<Result<'collaborators.list'>>;
export type AppInvite = Item<Result<'collaborators.invites'>>;
export type App = Result<'apps.get'>;

const LIMIT = 200;

export function variablesModel(id: string) {
  const variables = pages(
    (cursor, signal) => api('env.list', { id, limit: LIMIT, cursor }, { signal }),
    ({ name }: Variable) => name,
  );
  const vars = pages(
    (cursor, signal) => api('vars.list', { id, limit: LIMIT, cursor }, { signal }),
    ({ name }: WorkerVar) => name,
  );
  const secrets = pages(
    (cursor, signal) => api('secrets.list', { id, limit: LIMIT, cursor }, { signal }),
    ({ name }: Secret) => name,
  );
  const bindings = pages(
    (cursor, signal) => api('bindings.list', { id, limit: LIMIT, cursor }, { signal }),
    ({ name, type }: Binding) => `${name} ${type}`,
  );
  return {
    variables,
    vars,
    secrets,
    bindings,
    async setVariable(name: string, value: string) {
      await api('env.set', { id, name, value });
      await variables.refresh();
    },
    /** @returns `in_effect`: whether a process has the secret; `problem`: why the app did not start with it, or null */
    async setSecret(name: string, value: string) {
      const { in_effect, problem } = await api('secrets.set', { id, name, value });
      await secrets.refresh();
      return { in_effect, problem };
    },
    /** @returns `in_effect`: whether a process has the value; `problem`: why the app did not start with it, or null */
    async setVar(name: string, value: unknown) {
      const { in_effect, problem } = await api('vars.set', { id, name, value });
      await vars.refresh();
      return { in_effect, problem };
    },
    /** @returns why the app did not start without the override; null if it did */
    async unsetVar(name: string): Promise<string | null> {
      const { problem } = await api('vars.unset', { id, name });
      await vars.refresh();
      return problem;
    },
    deleteVariable: (name: string) => api('env.delete', { id, name }),
    deleteSecret: (name: string) => api('secrets.delete', { id, name }),
    close() {
      variables.close();
      vars.close();
      secrets.close();
      bindings.close();
    },
  };
}

/** Parses the `NAME=value` lines of a `.env` file, with comments, `export` and quotes. Ignores all other lines. */
export function variablesOf(text: string): { name: string; value: string }[] {
  const found: { name: string; value: string }[] = [];
  for (const line of text.split(/\r?\n/)) {
    const [, name, rest] = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (name === undefined) continue;
    const quoted = /^(["'`])(.*)\1$/.exec(rest!);
    const value = quoted
      ? quoted[1] === '"'
        ? quoted[2]!.replaceAll('\\n', '\n').replaceAll('\\"', '"')
        : quoted[2]!
      : rest!.replace(/\s+#.*$/, '');
    found.push({ name, value });
  }
  return found;
}

export function domainsModel(id: string) {
  const domains = pages(
    (cursor, signal) => api('domains.list', { id, limit: LIMIT, cursor }, { signal }),
    ({ hostname }: Domain) => hostname,
  );
  /** The result of each hostname's check; null while the check runs. */
  const checks = signal<ReadonlyMap<string, DomainState | Failure | null>>(new Map());
  const check = async (hostname: string) => {
    const put = (state: DomainState | Failure | null) => {
      checks.value = new Map([...checks.peek(), [hostname, state]]);
    };
    put(null);
    put(await api('domains.check', { id, hostname }).catch((error: Failure) => error));
  };
  // Checks one hostname after another, because the server limits concurrent lookups.
  const checkNew = async () => {
    for (const { hostname } of domains.items.peek()) if (!checks.peek().has(hostname)) await check(hostname);
  };
  const stop = domains.items.subscribe(() => void checkNew());
  return {
    domains,
    checks,
    check,
    async add(hostname: string) {
      const domain = await api('domains.add', { id, hostname });
      await domains.refresh();
      return domain;
    },
    remove: (hostname: string) => api('domains.remove', { id, hostname }),
    close() {
      stop();
      domains.close();
    },
  };
}

export function mailModel(id: string) {
  const routes = pages(
    (cursor, signal) => api('mail.routes.list', { id, limit: LIMIT, cursor }, { signal }),
    ({ address }: MailRoute) => address,
  );
  return {
    routes,
    async set(address: string) {
      const route = await api('mail.routes.set', { id, address });
      await routes.refresh();
      return route;
    },
    remove: (address: string) => api('mail.routes.delete', { id, address }),
    close: () => routes.close(),
  };
}

export function tcpModel(id: string) {
  const ports = pages(
    (cursor, signal) => api('tcp.ports.list', { id, limit: LIMIT, cursor }, { signal }),
    ({ port }: TcpPort) => String(port),
  );
  return {
    ports,
    async set(port: number) {
      const set = await api('tcp.ports.set', { id, port });
      await ports.refresh();
      return set;
    },
    remove: (port: number) => api('tcp.ports.delete', { id, port }),
    close: () => ports.close(),
  };
}

/**
 * Returns the sorted domains of e-mail addresses that need a DNS record. Domains below the base domain need none: they have
 * an A or AAAA record, and mail servers use it for a domain without an MX record.
 */
export function mailDomains(routes: readonly MailRoute[], baseDomain: string): string[] {
  const all = routes.map(({ address }) => address.slice(address.indexOf('@') + 1));
  return [...new Set(all)].filter((domain) => !domain.endsWith(`.${baseDomain}`)).sort();
}

/** Returns a public address for a DNS record, preferably IPv4; null when there is none. */
export function publicAddress(addresses: readonly string[]): string | null {
  const reachable = addresses.filter(
    (address) =>
      !/^(127|10|192\.168|169\.254|172\.(1[6-9]|2\d|3[01])|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\.|^(::1$|f[cd]|fe80:)/i.test(
        address,
      ),
  );
  return reachable.find((address) => !address.includes(':')) ?? reachable[0] ?? null;
}

/**
 * Returns whether the alert dialog offers a kind of event. Some kinds need a bucket or other hosts.
 * @param on the kinds that the alert has: these are always offered, so that they can be turned off
 */
export function offersAlert(
  kind: Alert['on'][number],
  machine: { bucket: boolean; hosts: boolean },
  on: readonly Alert['on'][number][],
): boolean {
  if (on.includes(kind)) return true;
  if (kind === 'bucket') return machine.bucket;
  return kind !== 'host' || machine.hosts;
}

export function limitsModel(id: string) {
  const limits = resource((signal) => api('limits.get', { id }, { signal }));
  return {
    limits,
    async set(change: Pick<Params<'limits.set'>, 'clientRpm' | 'appRpm'>) {
      limits.set(await api('limits.set', { id, ...change }));
    },
    close: limits.close,
  };
}

export function maintenanceModel(id: string) {
  const maintenance = resource((signal) => api('maintenance.get', { id }, { signal }));
  return {
    maintenance,
    async set(change: Partial<Maintenance>) {
      maintenance.set(await api('maintenance.set', { id, ...change }));
    },
    close: maintenance.close,
  };
}

export function buildsModel(id: string) {
  const builds = resource((signal) => api('builds.get', { id }, { signal }));
  return {
    builds,
    async set(change: Builds) {
      builds.set(await api('builds.set', { id, ...change }));
    },
    close: builds.close,
  };
}

/** Parses requests per minute; 0: no limit. @returns null for empty text (the default), undefined for invalid text */
export function rpmOf(text: string): number | null | undefined {
  const typed = text.trim();
  if (typed === '') return null;
  return /^\d{1,8}$/.test(typed) && Number(typed) <= 10_000_000 ? Number(typed) : undefined;
}

export function alertsModel(id: string) {
  const alerts = pages(
    (cursor, signal) => api('alerts.list', { id, limit: LIMIT, cursor }, { signal }),
    (alert: Alert) => alert.id,
  );
  return {
    alerts,
    /** @returns the signing secret of a new alert in the format `json`; null for other formats and for a changed alert */
    async set(change: Omit<AlertChange, 'id'>): Promise<string | null> {
      const { secret, ...alert } = await api('alerts.set', { id, ...change });
      await alerts.refresh();
      return formatOf(alert) === 'json' ? secret : null;
    },
    async test(alert_id: string) {
      const delivery = await api('alerts.test', { id, alert_id });
      await alerts.refresh();
      return delivery;
    },
    delete: (alert_id: string) => api('alerts.delete', { id, alert_id }),
    close: alerts.close,
  };
}

export function collaboratorsModel(id: string, runs: boolean) {
  const collaborators = pages(
    (cursor, signal) => api('collaborators.list', { id, limit: LIMIT, cursor }, { signal }),
    ({ account }: Collaborator) => account,
  );
  // Only an admin of the machine may list accounts. Others invite people by e-mail address.
  const accounts = resource(async (signal) =>
    runs ? (await api('accounts.list', { limit: LIMIT }, { signal })).items : [],
  );
  return {
    collaborators,
    accounts,
    async set(account: string, role: Collaborator['role']) {
      await api('collaborators.set', { id, account, role });
      await collaborators.refresh();
    },
    remove: (account: string) => api('collaborators.remove', { id, account }),
    close() {
      collaborators.close();
      accounts.close();
    },
  };
}

/** The unused invites of an app, for its admins. */
export function appInvitesModel(id: string) {
  const invites = pages(
    (cursor, signal) => api('collaborators.invites', { id, limit: LIMIT, cursor }, { signal }),
    (invite: AppInvite) => invite.id,
  );
  return {
    invites,
    /** Creates an invite. @returns its link, which cannot be read again, and the result of mailing it */
    async invite(email: string, role: Collaborator['role']): Promise<MadeLink> {
      const { url, mail } = await api('collaborators.invite', { id, email, role });
      await invites.refresh();
      return { url, mail };
    },
    revoke: (invite: string) => api('collaborators.revoke_invite', { id, invite }),
    close: invites.close,
  };
}

export function appModel(id: string) {
  const { app, isIdle, close } = oneApp(id, 5_000);
  const becomes = async (change: Promise<App>) => app.set(await change);
  return {
    app,
    isIdle,
    sleep: () => becomes(api('apps.sleep', { id })),
    start: () => becomes(api('apps.update', { id, desired_state: 'running' })),
    stop: () => becomes(api('apps.update', { id, desired_state: 'stopped' })),
    rename: (slug: string) => api('apps.rename', { id, slug }),
    delete: () => api('apps.delete', { id }),
    close,
  };
}
