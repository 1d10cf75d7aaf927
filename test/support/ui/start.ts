// Starts a Cellar and a browser for the tests of a file.
import { after, before } from 'node:test';
import type { Cellar } from '../e2e/cellar.ts';
import { becomeFirst, originOf } from './accounts.ts';
import { NEEDS_CHROMIUM, type Person, UiBrowser } from './browser.ts';

/**
 * Starts the Cellar before the file's tests, and ends it after them. Without Chromium it does nothing.
 * @param use called with a person who is signed in as an administrator, and the browser for others
 * @param prepare called with the Cellar before there is a browser
 */
export function startUi(
  cellar: Cellar,
  use: (ada: Person, browser: UiBrowser) => void,
  prepare: () => Promise<void> = async () => {},
): void {
  let browser: UiBrowser | undefined;
  before(async () => {
    if (NEEDS_CHROMIUM.skip !== undefined) return;
    await cellar.start();
    await prepare();
    browser = await UiBrowser.start();
    const ada = await browser.person(originOf(cellar));
    await becomeFirst(ada, cellar);
    use(ada, browser);
  });
  after(async () => {
    await browser?.[Symbol.asyncDispose]();
    await cellar[Symbol.asyncDispose]();
  });
}
