// Unused invites of the machine or of an app.
import type { ComponentChildren } from 'preact';
import type { Invite } from '../models/account/invites.ts';
import type { Pages } from '../models/pages.ts';
import { RemoveButton } from './controls/button.tsx';
import { Time } from './status/time.tsx';
import { Listed, remove } from './tables/pages.tsx';
import type { Column } from './tables/table.tsx';

/** Roles on an app: value and text. */
export const APP_ROLES = [
  ['view', 'View: look at it'],
  ['push', 'Push: deploy, and see its data'],
  ['admin', 'Admin: everything'],
] as const;

/** @param props.gives the column that shows which role or account an invite gives */
export function OpenInvites({
  of,
  gives,
  revoke,
  empty,
}: {
  of: Pages<Invite>;
  gives: Column<Invite>;
  revoke: (id: string) => Promise<unknown>;
  empty: ComponentChildren;
}) {
  return (
    <Listed
      of={of}
      label="Invites"
      columns={[
        { name: 'For', wide: true, cell: (invite) => <span class="cut">{forWhom(invite)}</span> },
        gives,
        { name: 'Ends', label: 'ends', cell: ({ expires_at }) => <Time at={expires_at} /> },
        {
          name: 'What to do',
          silent: true,
          cell: (invite) => (
            <RemoveButton
              label={`Revoke the invite: ${forWhom(invite)}`}
              onClick={() => remove(of, invite, 'The invite was revoked', () => revoke(invite.id))}
            />
          ),
        },
      ]}
      empty={empty}
    />
  );
}

function forWhom({ email, account }: Invite): string {
  return account !== null ? 'A new password' : (email ?? 'Anyone with the link');
}
