// People of the machine, and their invites.
import { api, type Params, type Result } from '../../api.ts';
import { resource } from '../../live.ts';
import { pages } from '../pages.ts';

export type Account = Result<'accounts.list'>['items'][number];
export type Invite = Result<'invites.list'>['items'][number];

/** A new link. `url` is null when the link was mailed, so that only the recipient has it. */
export type MadeLink = Pick<Result<'collaborators.invite'>, 'url' | 'mail'>;

const LIMIT = 200;

export function peopleModel() {
  const accounts = pages(
    (cursor, signal) => api('accounts.list', { limit: LIMIT, cursor }, { signal }),
    ({ id }: Account) => id,
  );
  const invites = pages(
    (cursor, signal) => api('invites.list', { limit: LIMIT, cursor }, { signal }),
    ({ id }: Invite) => id,
  );
  const apps = resource((signal) => api('apps.list', { limit: LIMIT }, { signal }));
  return {
    accounts,
    invites,
    apps,
    /** Creates an invite. @returns its link, which cannot be read again, and the result of mailing it */
    async invite(wanted: Params<'invites.create'>): Promise<MadeLink> {
      const { url, mail } = await api('invites.create', wanted);
      await invites.refresh();
      return { url, mail };
    },
    revoke: (id: string) => api('invites.revoke', { id }),
    /** @param maxApps null: the machine's default */
    async setMaxApps(account: string, maxApps: number | null) {
      await api('accounts.set_max_apps', { account, max_apps: maxApps });
      await accounts.refresh();
    },
    deleteAccount: (id: string) => api('accounts.delete', { id }),
    close() {
      accounts.close();
      invites.close();
      apps.close();
    },
  };
}
