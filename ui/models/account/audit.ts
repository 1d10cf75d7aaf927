// The audit log.
import { api, type Params, type Result } from '../../api.ts';
import { pages } from '../pages.ts';

export type AuditEntry = Result<'audit.list'>['items'][number];
export type AuditFilter = Pick<Params<'audit.list'>, 'account' | 'app' | 'operation' | 'via' | 'outcome'>;

const PAGE = 50;

/** Entries that match the filter, newest first. */
export function auditModel(filter: AuditFilter) {
  return pages(
    (cursor, signal) => api('audit.list', { ...filter, limit: PAGE, cursor }, { signal }),
    ({ id }: AuditEntry) => id,
    { everyMs: 15_000, grows: true },
  );
}

const INTERFACES = ['ui', 'cli', 'rest', 'rpc', 'mcp', 'git', 'wrangler'] as const;
type Interface = (typeof INTERFACES)[number];

/** The names of the interfaces, as people see them. */
export const interfaceNames: Readonly<Record<Interface, string>> = {
  ui: 'Browser',
  cli: 'Command line',
  rest: 'REST',
  rpc: 'RPC',
  mcp: 'Agent',
  git: 'git',
  wrangler: 'Wrangler',
};

/** Returns a filter from the query. Leaves out empty and unknown values. @param of returns a query parameter */
export function filterOf(of: (name: string) => string): AuditFilter {
  const via = INTERFACES.find((each) => each === of('via'));
  const outcome = (['ok', 'refused'] as const).find((each) => each === of('outcome'));
  const texts = (['account', 'app', 'operation'] as const).map((name) => [name, of(name).trim()] as const);
  return {
    ...Object.fromEntries(texts.filter(([, text]) => text !== '')),
    ...(via && { via }),
    ...(outcome && { outcome }),
  };
}

/** Returns the URL that exports all entries that match a filter. */
export function exportUrl(filter: AuditFilter): string {
  const search = new URLSearchParams(Object.entries(filter)).toString();
  return `/v1/audit/export${search === '' ? '' : `?${search}`}`;
}

/** Returns an entry's details as text: `name HELLO, role push`. */
export function detailsOf({ details }: Pick<AuditEntry, 'details'>): string {
  return Object.entries(details)
    .map(([field, value]) => `${field.replaceAll('_', ' ')} ${value}`)
    .join(', ');
}

/** Returns who acted, according to an entry. */
export function whoOf({
  account,
  name,
  operation,
}: Pick<AuditEntry, 'account' | 'name' | 'operation'>): string {
  if (account !== null) return name ?? account;
  return operation === 'sign_in' ? 'Unknown' : 'Runner token';
}
