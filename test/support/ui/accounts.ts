// Makes accounts for tests of the control UI by requests, not through its pages.
import assert from 'node:assert/strict';
import type { Cellar } from '../e2e/cellar.ts';
import { welcomeOf } from '../e2e/visitor.ts';
import type { Person } from './browser.ts';

/** Longer than required. */
export const PASSWORD = 'correct horse battery staple';

/** Returns the origin of a Cellar's control UI. */
export const originOf = (cellar: Cellar) => `http://localhost:${cellar.edgePort}`;

/** Accepts the welcome link: the person is signed in as an administrator. */
export async function becomeFirst(person: Person, cellar: Cellar, name = 'Ada'): Promise<void> {
  await useLink(person, cellar, '/welcome', await welcomeOf(cellar), name);
}

/** Accepts an invite: the person is signed in. */
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
