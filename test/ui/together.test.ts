// Difficult cases of the control UI in a real Chromium: large files, broken connections, several people at once.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { welcomeOf } from '../support/e2e/visitor.ts';
import { eventually } from '../support/processes.ts';
import { accept, becomeFirst, originOf, PASSWORD } from '../support/ui/accounts.ts';
import { NEEDS_CHROMIUM, type Person, UiBrowser } from '../support/ui/browser.ts';

const MIB = 2 ** 20;
const cellar = new Cellar();
const rpc = rpcOf(cellar);
let browser: UiBrowser;
let ada: Person;
let id: string;

before(async () => {
  if (NEEDS_CHROMIUM.skip !== undefined) return;
  await cellar.start();
  id = await cellar.deploy('shop', 'bucket');
  browser = await UiBrowser.start();
  ada = await browser.person(originOf(cellar));
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await cellar[Symbol.asyncDispose]();
});

/** Makes an invite with the role `view` on the app, and returns its token. */
async function invited(email: string): Promise<string> {
  const { url } = await rpc('invites.create', { email, app: { id, role: 'view' } });
  return new URL(url).searchParams.get('token')!;
}

test('axe finds nothing on the public pages, in either theme', NEEDS_CHROMIUM, async () => {
  await using guest = await browser.person(originOf(cellar));
  const { page } = guest;
  guest.expect(/status of 404/);
  const publicPages = {
    [`/welcome?token=${await welcomeOf(cellar)}`]: 'Make the account',
    [`/invite?token=${await invited('guest@example.com')}`]: /account/,
    '/': 'Sign in',
    '/welcome?token=wrong': null,
  };
  for (const [path, button] of Object.entries(publicPages)) {
    await page.goto(path);
    if (button === null) await page.getByRole('heading', { level: 1 }).waitFor();
    else await page.getByRole('button', { name: button }).first().waitFor();
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      assert.deepEqual(await guest.findings(), [], `${path} in the ${colorScheme} theme`);
    }
  }
  await becomeFirst(ada, cellar);
});

test(
  "a browser does not load an app's object as script, worker, style or frame of the control UI",
  NEEDS_CHROMIUM,
  async () => {
    const path = `/v1/apps/${id}/storage/r2/files/raw?key=evil.js`;
    const script = 'globalThis.ran = true; globalThis.postMessage?.("ran");';
    const put = await fetch(cellar.api + path, {
      method: 'PUT',
      headers: { authorization: `Bearer ${cellar.token}`, 'content-type': 'text/javascript' },
      body: script,
    });
    assert.equal(put.status, 200, await put.text());
    await using person = await browser.person(originOf(cellar), {
      storageState: await ada.page.context().storageState(),
    });
    person.expect(/./);
    await person.page.goto('/');
    await person.page.getByRole('link', { name: 'shop' }).first().waitFor();
    const url = originOf(cellar) + path;
    assert.equal(await person.evaluate(`fetch('${url}').then((answer) => answer.text())`), script);
    /** Returns a script that resolves with whether an element with the object's URL was loaded. */
    const load = (tag: string, more: object) => `new Promise((resolve) => {
    const element = Object.assign(document.createElement('${tag}'), ${JSON.stringify(more)});
    element.onload = () => resolve('loaded');
    element.onerror = () => resolve('refused');
    document.head.append(element);
  })`;
    const attempts = {
      script: load('script', { src: url }),
      module: load('script', { src: url, type: 'module' }),
      style: load('link', { href: url, rel: 'stylesheet' }),
      import: `import('${url}').then(() => 'loaded', () => 'refused')`,
      worker: `new Promise((resolve) => {
      const worker = new Worker('${url}');
      worker.onmessage = () => resolve('loaded');
      worker.onerror = () => resolve('refused');
    })`,
      'service worker': `navigator.serviceWorker.register('${url}').then(() => 'loaded', () => 'refused')`,
    };
    for (const [name, attempt] of Object.entries(attempts))
      assert.equal(await person.evaluate(attempt), 'refused', name);
    assert.equal(await person.evaluate("'ran' in globalThis"), false);
    // The page of an app, on the same site, cannot load it either.
    await person.page.goto(`http://shop.localhost:${cellar.edgePort}/`);
    for (const name of ['script', 'module'] as const)
      assert.equal(await person.evaluate(attempts[name]), 'refused', name);
    assert.equal(await person.evaluate("'ran' in globalThis"), false);
  },
);

test(
  'a large file is uploaded in parts, resumes after a broken connection, and is removed when cancelled',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    const content = randomBytes(20 * MIB + 5);
    const file = join(cellar.data, '..', 'film.bin');
    writeFileSync(file, content);
    try {
      const puts: string[] = [];
      page.on('request', (request) => {
        if (request.method() === 'PUT') puts.push(new URL(request.url()).searchParams.get('part') ?? 'whole');
      });
      await page.goto('/apps/shop/storage/buckets/files/films');
      await page.getByRole('button', { name: 'Upload files' }).waitFor();
      const session = await page.context().newCDPSession(page);
      await session.send('Network.enable');
      const network = (offline: boolean, uploadThroughput: number) =>
        session.send('Network.emulateNetworkConditions', {
          offline,
          latency: 0,
          downloadThroughput: -1,
          uploadThroughput,
        });
      await network(false, 5 * MIB);
      await page.locator('input[type=file]').setInputFiles(file);
      const progress = page.getByRole('progressbar', { name: 'Upload of film.bin' });
      const sent = () => progress.evaluate((bar) => (bar as unknown as { value: number }).value);
      await eventually(async () => (await sent()) > 9 * MIB, 'the second part is on its way');
      ada.expect(/ERR_INTERNET_DISCONNECTED/);
      await network(true, -1);
      await page.getByText('The connection was lost. The upload resumes automatically.').waitFor();
      assert.ok((await sent()) >= 8 * MIB);
      await network(false, -1);
      await page.getByRole('button', { name: 'film.bin', exact: true }).waitFor();
      assert.equal(await progress.count(), 0);
      assert.equal(puts.filter((part) => part === '1').length, 1, `the first part was sent once: ${puts}`);
      assert.ok(puts.length > 3, `the part that broke was sent again: ${puts}`);
      const object = { id, bucket: 'files', key: 'films/film.bin' };
      const { content_base64 } = await rpc('storage.r2.raw', {
        ...object,
        range: `bytes=${8 * MIB - 9}-${8 * MIB + 9}`,
      });
      assert.deepEqual(Buffer.from(content_base64, 'base64'), content.subarray(8 * MIB - 9, 8 * MIB + 10));
      assert.equal((await rpc('storage.r2.get', object)).size, content.length);

      await page.getByRole('button', { name: 'film.bin', exact: true }).click();
      await page.getByText(/^The first .+ of .+:$/).waitFor();
      assert.deepEqual(await ada.findings(), []);
      await page.keyboard.press('Escape');

      writeFileSync(file, 'small');
      await page.locator('input[type=file]').setInputFiles(file);
      await eventually(
        async () => (await rpc('storage.r2.get', object)).size === 5,
        'the small one is there',
      );

      await network(false, 2 * MIB);
      writeFileSync(file, content);
      await page.locator('input[type=file]').setInputFiles(file);
      await eventually(async () => (await sent()) > MIB, 'it is on its way');
      await page.getByRole('button', { name: 'Cancel the upload of film.bin' }).click();
      await progress.waitFor({ state: 'detached' });
      assert.equal((await rpc('storage.r2.get', object)).size, 5);
      await session.detach();
      browser.assertQuiet();
    } finally {
      rmSync(file);
    }
  },
);

test(
  'the role view sees changes of others live, cannot make them, and loses access when removed',
  NEEDS_CHROMIUM,
  async () => {
    await using grace = await browser.person(originOf(cellar));
    await accept(grace, cellar, await invited('grace@example.com'), 'Grace');
    const { page } = grace;
    await page.goto('/apps/shop/deploys');
    await page.locator('[data-row]').first().waitFor();
    const again = page.getByRole('button', { name: 'Deploy main again' });
    await eventually(() => again.isDisabled(), 'her role is known');
    assert.match((await again.getAttribute('title'))!, /needs the role push on the app; your role is view/);

    await ada.page.goto('/apps/shop/deploys');
    await ada.page.getByRole('button', { name: 'Deploy main again' }).click();
    await ada.page.locator('.screen-head').getByText('live', { exact: true }).waitFor();
    await page.locator('[data-row]').nth(1).waitFor();
    await eventually(
      async () => (await page.locator('tbody tr').first().textContent())!.includes('live'),
      'she sees it go live',
    );

    grace.expect(/status of 403/);
    const { items } = await rpc('collaborators.list', { id });
    await rpc('collaborators.remove', { id, account: items[0].account });
    await page.getByText('Your role does not allow this').waitFor();
    assert.equal(await page.locator('[data-row]').count(), 0, 'nothing is left of what she saw');
    browser.assertQuiet();
  },
);

test(
  'on a slow network a skeleton appears only after 300 ms, and the layout does not shift',
  NEEDS_CHROMIUM,
  async () => {
    await using guest = await browser.person(originOf(cellar), {
      storageState: await ada.page.context().storageState(),
      reducedMotion: 'no-preference',
    });
    const { page } = guest;
    await page.addInitScript(`
      window.shifts = [];
      new PerformanceObserver((list) => {
        for (const each of list.getEntries()) if (!each.hadRecentInput) shifts.push(each.value);
      }).observe({ type: 'layout-shift', buffered: true });
      window.skeletons = [];
      new MutationObserver(() => {
        const found = document.querySelector('.skeleton');
        if (found === null || window.skeleton) return;
        window.skeleton = true;
        // The animation starts at the first frame, which a busy browser may paint late.
        let first;
        const look = (now) => {
          if (!found.isConnected) return;
          first ??= now;
          skeletons.push([now - first, Number(getComputedStyle(found).opacity)]);
          requestAnimationFrame(look);
        };
        requestAnimationFrame(look);
      }).observe(document, { subtree: true, childList: true });
    `);
    const session = await page.context().newCDPSession(page);
    await session.send('Network.enable');
    await session.send('Network.emulateNetworkConditions', {
      offline: false,
      latency: 400,
      downloadThroughput: 64 * 1024,
      uploadThroughput: 64 * 1024,
    });
    await page.goto('/apps/shop/deploys');
    await page.locator('[data-row]').first().waitFor();
    const seen = await guest.evaluate<[number, number][]>('skeletons');
    assert.ok(seen.length > 0, 'there was a skeleton');
    for (const [ms, opacity] of seen) {
      if (ms < 280) assert.equal(opacity, 0, `it is seen after ${ms} ms`);
      if (ms > 900) assert.ok(opacity > 0.5, `it is not seen after ${ms} ms`);
    }
    const shifted = (await guest.evaluate<number[]>('shifts')).reduce((sum, each) => sum + each, 0);
    assert.ok(shifted < 0.1, `what was shown moved by ${shifted}`);
  },
);

test(
  'a log line between the empty list and the start of its stream is shown once',
  NEEDS_CHROMIUM,
  async () => {
    const code =
      "export default { fetch() { console.log('heard at last'); return new Response('said'); } };\n";
    await cellar.deploy('talker', 'hello', { 'index.js': code });
    const { page } = ada;
    const gate = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    await page.route('**/rpc', async (route) => {
      if (route.request().postData()?.includes('"logs.stream"')) {
        asked.resolve();
        await gate.promise;
      }
      await route.continue();
    });
    await page.goto('/apps/talker/logs?q=heard');
    await asked.promise;
    await cellar.get('talker', '/');
    await eventually(
      async () => (await rpc('logs.list', { id: 'talker', search: 'heard', limit: 5 })).items.length === 1,
      'the line is kept',
    );
    gate.resolve();
    await page.locator('.log-line').first().waitFor();
    await cellar.get('talker', '/');
    await page.locator('.log-line').nth(1).waitFor();
    assert.equal(await page.locator('.log-line').count(), 2);
    await page.unroute('**/rpc');
  },
);

test('the keyboard alone is enough from sign-in to rollback', NEEDS_CHROMIUM, async () => {
  const answers = async () => (await cellar.get('shop', '/nothing')).text;
  const before = await answers();
  const code = "export default { fetch: () => new Response('newer') };\n";
  await cellar.deployAgain('shop', 'bucket', { 'index.js': code });
  await using guest = await browser.person(originOf(cellar));
  const { page } = guest;
  const { keyboard } = page;
  const focused = () =>
    guest.evaluate<string>(`(() => {
      const { activeElement: at } = document;
      const { outlineStyle, boxShadow } = getComputedStyle(at);
      if (outlineStyle === 'none' && boxShadow === 'none' && !at.matches('main, input')) return 'the focus on ' + at.outerHTML.slice(0, 200) + ' is not seen';
      return at.getAttribute('aria-label') ?? (at.textContent.trim() || at.name || at.type);
    })()`);
  await page.goto('/');
  await page.getByLabel('E-mail').waitFor();
  await keyboard.type('ada@example.com');
  await keyboard.press('Tab');
  await keyboard.type(PASSWORD);
  await keyboard.press('Enter');
  await page.getByRole('link', { name: 'shop', exact: true }).waitFor();
  await keyboard.press('Control+k');
  await page.getByRole('dialog', { name: 'Find' }).waitFor();
  await keyboard.type('shop');
  await page.getByRole('option', { name: /shop/ }).first().waitFor();
  await keyboard.press('ArrowDown');
  await keyboard.press('ArrowUp');
  await keyboard.press('Enter');
  await page.getByRole('heading', { name: 'shop', level: 1 }).waitFor();
  await keyboard.press('g');
  await keyboard.press('d');
  await page.getByRole('heading', { name: 'Deploys', level: 1 }).waitFor();
  await page.locator('[data-row]').nth(1).waitFor();
  await keyboard.press('j');
  await keyboard.press('j');
  await keyboard.press('Enter');
  await page.waitForURL(/\/deploys\/\w+$/);
  await page.locator('.screen-head').getByRole('button', { name: 'Roll back to this' }).waitFor();
  for (let tabs = 0; (await focused()) !== 'Roll back to this'; tabs++) {
    assert.ok(tabs < 40, 'the button is reached by Tab');
    assert.doesNotMatch(await focused(), /is not seen/);
    await keyboard.press('Tab');
  }
  assert.equal(await answers(), 'newer');
  await keyboard.press('Enter');
  await page.getByRole('dialog').getByRole('button', { name: 'Roll back to this deploy' }).waitFor();
  await keyboard.press('Enter');
  await eventually(async () => (await answers()) === before, 'the app is as it was');
  browser.assertQuiet();
});
