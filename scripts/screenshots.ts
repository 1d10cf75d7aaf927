// Takes the screenshots in `docs/ui`, or in another directory: `node scripts/screenshots.ts [DIRECTORY]`. Needs Chromium.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { becomeFirst, originOf } from '../test/support/ui/accounts.ts';
import { NEEDS_CHROMIUM, UiBrowser } from '../test/support/ui/browser.ts';
import { SHOP, shopFiles } from '../test/support/ui/shop.ts';

const DIRECTORY = process.argv[2] ?? join(import.meta.dirname, '../docs/ui');
/** Name, path, width and theme of each screenshot. */
const SHOTS = [
  ['apps', '/', 1280, 'light'],
  ['overview', `/apps/${SHOP}`, 1280, 'light'],
  ['overview-dark', `/apps/${SHOP}`, 1280, 'dark'],
  ['overview-small', `/apps/${SHOP}`, 390, 'light'],
  ['deploys-wide', `/apps/${SHOP}/deploys`, 2560, 'light'],
  ['logs-dark', `/apps/${SHOP}/logs`, 1280, 'dark'],
  ['storage', `/apps/${SHOP}/storage`, 1280, 'light'],
] as const;

if (NEEDS_CHROMIUM.skip !== undefined) {
  console.log(NEEDS_CHROMIUM.skip);
  process.exit();
}
await using cellar = await new Cellar().start();
await cellar.deploy(SHOP, 'hello', shopFiles());
await cellar.deploy('guestbook', 'hello');
for (const path of ['/fill', '/', '/', '/broken', '/slow', '/print']) await cellar.get(SHOP, path);
// Makes a deploy that fails, and one that repairs the app.
await cellar.deployAgain(SHOP, 'hello', { ...shopFiles(), 'main.ts': 'export default {' }).catch(() => {});
await cellar.deployAgain(SHOP, 'hello', { ...shopFiles(), 'README.md': 'A shop.' });
await using browser = await UiBrowser.start();
const ada = await browser.person(originOf(cellar));
await becomeFirst(ada, cellar);
mkdirSync(DIRECTORY, { recursive: true });
for (const [name, path, width, colorScheme] of SHOTS) {
  await ada.page.setViewportSize({ width, height: Math.round(width === 390 ? 844 : width * 0.6) });
  await ada.page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
  await ada.page.goto(path);
  await ada.page.locator('main h1').waitFor();
  await ada.page.locator('.skeleton').first().waitFor({ state: 'detached' });
  // The chart's chunk is loaded separately.
  if (name.startsWith('overview')) await ada.page.locator('.u-over').waitFor();
  await ada.page.screenshot({ path: join(DIRECTORY, `${name}.png`) });
  console.log(name);
}
