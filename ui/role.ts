// The account's role on the current app. The API enforces it. The UI hides and disables what the API would refuse.
import { computed, effect, signal } from '@preact/signals';
import { api } from './api.ts';
import { route } from './router.ts';
import { isAdmin, session } from './session.ts';

export type Role = 'view' | 'push' | 'admin';

const ORDER: readonly Role[] = ['view', 'push', 'admin'];
/** Maximum collaborators read. */
const LIMIT = 200;

const found = signal<{ place: string; role: Role | null } | null>(null);

const app = computed(() => (route.value !== null && 'app' in route.value ? route.value.app : null));
const member = computed(() => (isAdmin.value ? null : (session.value?.account.id ?? null)));
/** Contains the screen's name, so that each new screen reads the role again. The role may have changed. */
const asked = computed(() => `${route.value?.name} ${app.value} ${member.value}`);

/** The role on the current app; null while it is unknown, without a role, and without an app. */
export const role = computed<Role | null>(() => {
  if (app.value === null) return null;
  if (isAdmin.value) return 'admin';
  return found.value?.place === `${app.value} ${member.value}` ? found.value.role : null;
});

/** Returns an account's role on an app; null without one. Admins of the machine have all rights, and must not be passed. */
export function roleOf(
  account: string,
  owner: string,
  collaborators: readonly { account: string; role: Role }[],
): Role | null {
  if (account === owner) return 'admin';
  return collaborators.find((each) => each.account === account)?.role ?? null;
}

/** Returns why a role is not sufficient; null when it is sufficient or unknown. */
export function refusal(needs: Role, own: Role | null): string | null {
  if (own === null || ORDER.indexOf(own) >= ORDER.indexOf(needs)) return null;
  return `This operation needs the role ${needs} on the app; your role is ${own}. An administrator of the app can give you another.`;
}

/** Whether the account has the role `needs` or a higher one; true while its role is unknown. Subscribes to the role. */
export function may(needs: Role): boolean {
  return refusal(needs, role.value) === null;
}

/** Starts to read the role at each change of screen, app or account. */
export function followRole(): void {
  effect(() => {
    asked.value;
    const [id, account] = [app.peek(), member.peek()];
    if (id !== null && account !== null) void read(id, account);
  });
}

async function read(id: string, account: string): Promise<void> {
  try {
    const [{ owner }, { items }] = await Promise.all([
      api('apps.get', { id }),
      api('collaborators.list', { id, limit: LIMIT }),
    ]);
    found.value = { place: `${id} ${account}`, role: roleOf(account, owner, items) };
  } catch {
    // The role stays unknown. The screen shows the error, and the API refuses what is not allowed.
  }
}
