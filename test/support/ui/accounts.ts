// Accounts of people in the tests of the control UI, made without its screens.
import assert from 'node:assert/strict';
import type { Cellar } from '../e2e/cellar.ts';
import { welcomeOf } from '../e2e/visitor.ts';
import type { Person } from './browser.ts';

/** Longer than it has to be. */
export const PASSWORD = 'correct horse battery staple';

/** Where the control UI of a Cellar is. */
export const originOf = (cellar: Cellar) => `http://localhost:${cellar.edgePort}`;

/** Has the first person use the link of the first start: an administrator, signed in. */
export async function becomeFirst(person: Person, cellar: Cellar, name = 'Ada'): Promise<void> {
  await useLink(person, cellar, '/welcome', await welcomeOf(cellar), name);
}

/** Has somebody use the token of an invite: signed in. */
export async function accept(person: Person, cellar: Cellar, token: string, name: string): Promise<void> {
  await useLink(person, cellar, '/invites/accept', token, name);
}

async function useLink(person: Person, cellar: Cellar, path: string, token: string, name: string) {
  const email = `${name.toLowerCase()}@example.com`;
  const answer = await person.page.request.post(path, {
    data: { token, name, email, password: PASSWORD },
    headers: { origin: originOf(cellar) },
  });
  assert.equal(answer.status(), 200, await answer.text());
}
