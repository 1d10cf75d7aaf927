// Pushed apps with the browser binding, which they use by Cloudflare's own packages, and a real Chromium.
// Runs as root too.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import sharp from 'sharp';
import { bundled, noBrowser } from '../support/browser/bundled.ts';
import { BrowserEndpoint } from '../support/browser/endpoint.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { descendants, eventually, type Process, processes } from '../support/processes.ts';

/** An address of this machine that the operator opens to apps. */
const ALLOWED = '127.0.0.2';
/** Deadline of a call: a browser may start slowly on a busy machine. */
const CALL_MS = 200_000;

const RED = '<style>body { margin: 0; background: #f00 }</style>';

describe('browsers of apps', { skip: noBrowser }, () => {
  const cellar = new Cellar({ RUNNER_BROWSER: '/usr/bin/chromium', RUNNER_EGRESS_ALLOW: ALLOWED });
  const pages = createServer((request, response) => {
    if (request.url === '/inward') response.writeHead(302, { location: `http://127.0.0.1:${port()}/` }).end();
    else response.end(`<title>page</title>served to ${request.headers.host}`);
  });
  const port = () => (pages.address() as AddressInfo).port;

  before(async () => {
    pages.listen(0);
    await once(pages, 'listening');
    await cellar.start();
    const files = await bundled('browser');
    for (const slug of ['shots', 'stranger']) await cellar.deploy(slug, 'browser', files);
    await cellar.deploy('acted', 'playwright', await bundled('playwright'));
  });
  after(async () => {
    await cellar[Symbol.asyncDispose]();
    pages.close();
  });

  const open = (path: string, body?: string, slug = 'shots') =>
    cellar.open(slug, path, {
      signal: AbortSignal.timeout(CALL_MS),
      ...(body !== undefined && { method: 'POST', body }),
    });
  const textOf = async (path: string, body?: string, slug?: string) => (await open(path, body, slug)).text();
  const jsonOf = async (path: string, slug?: string) => JSON.parse(await textOf(path, undefined, slug));
  const raw = (path: string, slug?: string, method = 'GET', body?: string) =>
    open(`/raw?method=${method}&path=${encodeURIComponent(path)}`, body, slug);
  const visit = async (urls: string[]) =>
    JSON.parse(await textOf('/visit', JSON.stringify(urls))) as string[];
  const chromiums = () =>
    descendants(cellar.pid).filter(({ command }) => command.includes('--user-data-dir=/tmp/profile'));
  // Browsers have low priority: beside other work it takes minutes until one has used all its memory.
  const haveEnded = (all: Process[]) =>
    eventually(
      () => {
        const pids = new Set(processes().map(({ pid }) => pid));
        return !all.some(({ pid }) => pids.has(pid));
      },
      'the end of the browser',
      400_000,
    );

  /** Waits until a session has ended, and returns why. */
  const reasonOf = async (id: string) => {
    let reason: string | undefined;
    await eventually(async () => {
      const history = (await jsonOf('/history')) as { sessionId: string; closeReasonText?: string }[];
      reason = history.find(({ sessionId }) => sessionId === id)?.closeReasonText;
      return reason !== undefined;
    }, 'the end of the session');
    return reason!;
  };

  test('make screenshots and PDFs, and read pages', async () => {
    const image = Buffer.from(await (await open('/screenshot', RED)).arrayBuffer());
    const { data, info } = await sharp(image).removeAlpha().raw().toBuffer({ resolveWithObject: true });
    assert.deepEqual({ width: info.width, height: info.height }, { width: 800, height: 600 });
    assert.deepEqual([...data.subarray(0, 3)], [255, 0, 0]);
    assert.match(await textOf('/pdf', RED), /^%PDF-/);
    const [content] = await visit([`http://${ALLOWED}:${port()}/`]);
    assert.match(content!, new RegExp(`<title>page</title>.*served to ${ALLOWED}:${port()}`));
    assert.equal(await textOf('/evaluate', '6 * 7'), '42');
    // A message of 20 MB.
    assert.equal((await textOf('/evaluate', '"x".repeat(20_000_000)')).length, 20_000_002);
  });

  test('are driven by Playwright', async () => {
    assert.equal(await textOf('/?title=acted', undefined, 'acted'), 'acted');
  });

  test('stay for the next request after a disconnect, apart from each other', async () => {
    const [one, two] = await Promise.all([textOf('/leave?title=one'), textOf('/leave?title=two')]);
    const listed = (await jsonOf('/sessions')).map(({ sessionId }: { sessionId: string }) => sessionId);
    assert.deepEqual(listed.sort(), [one, two].sort());
    assert.ok((await jsonOf(`/titles?id=${one}`)).includes('one'));
    assert.ok((await jsonOf(`/titles?id=${two}`)).includes('two'));
    const own = chromiums();
    assert.ok(own.length > 0);
    // No other app may use these sessions.
    assert.match(await textOf(`/titles?id=${one}`, undefined, 'stranger'), /Unable to connect/);
    assert.equal((await raw(`/v1/devtools/browser/${one}/json/list`, 'stranger')).status, 404);
    assert.equal((await raw(`/v1/devtools/browser/${one}`, 'stranger', 'DELETE')).status, 404);
    assert.deepEqual(await jsonOf('/sessions', 'stranger'), []);
    const targets = (await (await raw(`/v1/devtools/browser/${one}/json/list`)).json()) as {
      title: string;
    }[];
    assert.ok(targets.some(({ title }) => title === 'one'));
    assert.ok((await jsonOf(`/titles?id=${one}&close`)).includes('one'));
    assert.equal((await raw(`/v1/devtools/browser/${two}`, 'shots', 'DELETE')).status, 200);
    await haveEnded(own);
    await eventually(async () => (await jsonOf('/sessions')).length === 0, 'the end of the sessions');
    assert.equal(await reasonOf(two), 'the app closed the session');
    assert.match(await textOf(`/titles?id=${two}`), /Unable to connect/);
  });

  test('reach nothing of this machine, and none of its files', async () => {
    const api = new URL(cellar.api).port;
    const addresses = [
      `http://127.0.0.1:${port()}/`,
      `http://localhost:${port()}/`,
      `http://[::1]:${port()}/`,
      `http://[::ffff:127.0.0.1]:${port()}/`,
      `http://2130706433:${port()}/`,
      `http://127.0.0.1:${api}/`,
      `http://${ALLOWED}:${port()}/inward`,
      'http://169.254.169.254/latest/meta-data/',
      'http://0.0.0.0/',
    ];
    const paths = ['/etc/passwd', '/etc/hosts', `${cellar.data}/token`, '/root', '/home'];
    const visited = await visit([...addresses, ...paths.map((path) => `file://${path}`), 'file:///']);
    for (const [index, url] of addresses.entries())
      assert.match(visited[index]!, /ERR_SOCKS_CONNECTION_FAILED|ERR_ADDRESS/, url);
    for (const [index, path] of paths.entries())
      assert.match(visited[addresses.length + index]!, /ERR_(FILE_NOT_FOUND|ACCESS_DENIED)/, path);
    assert.doesNotMatch(visited.at(-1)!, /"(root|home|srv|var)"/);
    const probe = `fetch('http://127.0.0.1:${port()}/').then(() => 'reached', () => 'refused')`;
    assert.equal(await textOf('/evaluate', probe), '"refused"');
  });

  test('have limits: their number, memory and endless scripts', async () => {
    const { maxConcurrentSessions: most } = await jsonOf('/limits');
    const many = (await jsonOf('/many?count=50')) as string[];
    const started = many.filter((each) => /^[0-9a-f-]{36}$/.test(each));
    assert.ok(started.length > 0 && started.length <= most, String(many));
    const refused = many.filter((each) => !started.includes(each));
    assert.ok(
      refused.every((each) => each.includes('429')),
      refused[0] ?? '',
    );
    await Promise.all(started.map((id) => raw(`/v1/devtools/browser/${id}`, 'shots', 'DELETE')));
    // This needs one more of the launches that an account has in a minute.
    const own = await textOf('/leave?title=large', undefined);
    assert.match(own, /^[0-9a-f-]{36}$/);
    const all = chromiums();
    const eat = `(async () => { const kept = []; for (;;) { kept.push(new Uint8Array(50e6).fill(1)); await 0; } })()`;
    await textOf(`/run?id=${own}`, eat);
    await haveEnded(all);
    assert.match(await reasonOf(own), /used more than 1024 MiB of memory/);
    const busy = await textOf('/leave?title=busy');
    await textOf(`/run?id=${busy}`, 'for (;;);');
    assert.equal((await raw(`/v1/devtools/browser/${busy}`, 'shots', 'DELETE')).status, 200);
    await eventually(() => chromiums().length === 0, 'the end of the busy browser');
  });

  test('refuse what is not available', async () => {
    const launch = (query: string, body?: string) =>
      raw(`/v1/devtools/browser?${query}`, 'shots', 'POST', body);
    const refused = async (answer: Promise<Response>, message: RegExp) => {
      const { status } = await answer;
      assert.equal(status, 400);
      assert.match(await (await answer).text(), message);
    };
    await refused(launch('keep_alive=900000'), /"keep_alive" must be from 10000 to 600000/);
    await refused(launch('browser=other'), /"browser" is not available/);
    await refused(launch('', '{"guardrails":{}}'), /"guardrails" are not available/);
    assert.equal((await raw('/v1/other')).status, 404);
    assert.equal((await raw('/v1/devtools/browser/../../../etc')).status, 404);
  });

  test('end with the host', async () => {
    await textOf('/leave?title=last');
    const all = chromiums();
    assert.ok(all.length > 0);
    await cellar.stop();
    await haveEnded(all);
  });
});

describe('browsers of the operator’s endpoint', { skip: noBrowser }, () => {
  const TOKEN = 'secret-of-the-endpoint';
  let endpoint: BrowserEndpoint;
  let cellar: Cellar;
  before(async () => {
    endpoint = await BrowserEndpoint.start(TOKEN);
    cellar = await new Cellar({ RUNNER_BROWSER_URL: endpoint.url }).start();
    await cellar.deploy('shots', 'browser', await bundled('browser'));
    await cellar.deploy('acted', 'playwright', await bundled('playwright'));
  });
  after(async () => {
    await cellar[Symbol.asyncDispose]();
    await endpoint[Symbol.asyncDispose]();
  });
  const open = (path: string, body = '', slug = 'shots') =>
    cellar.open(slug, path, { method: 'POST', body, signal: AbortSignal.timeout(CALL_MS) });
  const raw = (path: string, method: string) =>
    open(`/raw?method=${method}&path=${encodeURIComponent(path)}`);

  test('serve both packages, and end with their connection', async () => {
    const image = Buffer.from(await (await open('/screenshot', RED)).arrayBuffer());
    const { data } = await sharp(image).removeAlpha().raw().toBuffer({ resolveWithObject: true });
    assert.deepEqual([...data.subarray(0, 3)], [255, 0, 0]);
    assert.equal(await (await open('/?title=acted', '', 'acted')).text(), 'acted');
    const id = await (await open('/leave?title=left')).text();
    await eventually(() => endpoint.running === 0, 'the end of the browsers');
    assert.equal(endpoint.count, 3);
    assert.match(await (await open(`/titles?id=${id}`)).text(), /Unable to connect/);
    const history = (await (await open('/history')).json()) as { closeReasonText: string }[];
    assert.equal(history[0]!.closeReasonText, 'its only connection was closed');
  });

  test('name the setting where they differ, and keep its key secret', async () => {
    const launch = '/v1/devtools/browser?keep_alive=600000';
    const { sessionId } = (await (await raw(launch, 'POST')).json()) as { sessionId: string };
    const list = await (await raw(`/v1/devtools/browser/${sessionId}/json/list`, 'GET')).text();
    assert.equal(list, '/json/list is not available: RUNNER_BROWSER_URL gives a session one connection');
    assert.equal((await raw(`/v1/devtools/browser/${sessionId}`, 'DELETE')).status, 200);
    const shown = JSON.stringify(await rpcOf(cellar)('admin.settings', {}));
    assert.match(shown, /RUNNER_BROWSER_URL/);
    await endpoint[Symbol.asyncDispose]();
    const refused = await (await open('/screenshot', RED)).text();
    assert.match(
      refused,
      /the browser that RUNNER_BROWSER_URL names accepts no connection|Unable to connect/,
    );
    for (const text of [shown, refused, cellar.output]) assert.doesNotMatch(text, new RegExp(TOKEN));
  });
});

describe('a Cellar without a browser', () => {
  const cellar = new Cellar();
  after(() => cellar[Symbol.asyncDispose]());

  test('says which setting is missing', async () => {
    await cellar.start();
    await cellar.deploy('none', 'browser', await bundled('browser'));
    const { text } = await cellar.get('none', '/screenshot', { method: 'POST', body: '' });
    assert.match(text, /code: 503.*This Cellar has no browser.*RUNNER_BROWSER/);
  });
});
