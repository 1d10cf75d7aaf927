// First commits of an app without local git: from a template, or from a public repository.
import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { templates } from '../../handlers/contract/apps/templates.ts';
import { serveGit } from '../../runtime/git/smart-http.ts';
import { TEMPLATES } from '../../runtime/git/templates.ts';
import { commit } from '../support/builds/projects.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { descendants, eventually } from '../support/processes.ts';

/** A key and a certificate for `localhost`, only for tests. */
const CERTIFICATE = join(import.meta.dirname, '../support/git/localhost.pem');
/** Timeout in ms. The first deploy of a Cellar resolves the registries' addresses, which may be slow. */
const DEPLOY_MS = 240_000;
const WORKER = 'export default { fetch: () => new Response("imported") };\n';

const cellar = new Cellar({
  RUNNER_EGRESS_ALLOW: '127.0.0.1',
  SSL_CERT_FILE: CERTIFICATE,
  RUNNER_MAX_APPS_PER_USER: '100',
});
/** Repositories by the first part of the path. `/elsewhere/…` redirects to another. */
const repositories = new Map<string, string>();
/** Emits `silent` with the response, when the repository that never answers is requested. */
const arrivals = new EventEmitter();
const pem = readFileSync(CERTIFICATE);
const server = createServer({ key: pem, cert: pem }, (request, response) => {
  const [path = '', query = ''] = request.url!.split('?');
  const [, name = '', ...service] = path.split('/');
  const repository = repositories.get(name);
  if (name === 'elsewhere') response.writeHead(302, { location: request.url!.replace(name, 'good') }).end();
  else if (name === 'silent') arrivals.emit('silent', response);
  else if (name === 'private') response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
  else if (repository === undefined) response.writeHead(404).end();
  else {
    const git = { repository, hooks: '/dev/null', role: 'view', floorMb: 1, onPush: () => {} } as const;
    void serveGit({ ...git, service: service.join('/'), query }, request, response);
  }
});
let port = 0;
before(async () => {
  server.listen(0, '127.0.0.1');
  await Promise.all([once(server, 'listening'), cellar.start()]);
  port = (server.address() as AddressInfo).port;
});
after(async () => {
  server.close();
  server.closeAllConnections();
  await cellar[Symbol.asyncDispose]();
});

// biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
async function rpc(method: string, params: object, key?: string): Promise<any> {
  return (await cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params }, key)).body;
}

/** Waits for the end of a deploy and returns it. */
// biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
async function ended(id: string, deployId: string): Promise<any> {
  let found: { finished_at: string | null } | undefined;
  await eventually(
    async () => {
      const { items } = (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body;
      found = items.find((deploy: { id: string }) => deploy.id === deployId);
      return found?.finished_at != null;
    },
    'the deploy has ended',
    DEPLOY_MS,
  );
  return found;
}

/** The templates with a page and an icon of their own. */
const SHOWN = ['list', 'links', 'drop', 'ai', 'react'];

/** Uses each of these templates as its page does. */
async function eachWorks(): Promise<void> {
  const post = (slug: string, path: string, body: string) => cellar.get(slug, path, { method: 'POST', body });
  assert.equal((await post('from-list', '/items', '  Bread ')).status, 204);
  assert.equal((await post('from-list', '/items', ' ')).status, 400);
  assert.equal((await cellar.get('from-list', '/items/1', { method: 'PUT' })).status, 204);
  const items = async () => JSON.parse((await cellar.get('from-list', '/items')).text);
  assert.deepEqual(await items(), [{ id: 1, text: 'Bread', done: 1 }]);
  await cellar.get('from-list', '/items/1', { method: 'DELETE' });
  assert.deepEqual(await items(), []);

  const link = { url: 'https://example.com/long', name: 'short' };
  assert.equal((await post('from-links', '/api/links', JSON.stringify(link))).status, 200);
  assert.equal((await post('from-links', '/api/links', JSON.stringify(link))).status, 409);
  const bad = JSON.stringify({ url: 'javascript:alert(1)' });
  assert.equal((await post('from-links', '/api/links', bad)).status, 400);
  const led = await cellar.get('from-links', '/short', { redirect: 'manual' });
  assert.deepEqual([led.status, led.headers.get('location')], [302, link.url]);

  const path = `/files/${encodeURIComponent('a plan ü.html')}`;
  const put = () => cellar.get('from-drop', path, { method: 'PUT', body: '<script>' });
  assert.deepEqual([(await put()).status, (await put()).status], [201, 409]);
  const file = await cellar.get('from-drop', path);
  assert.equal(file.text, '<script>');
  assert.match(file.headers.get('content-disposition')!, /^attachment/);
  assert.match((await cellar.get('from-drop', '/files')).text, /a plan ü/);

  const asked = await post('from-ai', '/chat', JSON.stringify([{ role: 'user', content: 'Hello' }]));
  assert.equal(asked.status, 502);
  assert.match(asked.text, /RUNNER_AI_URL/);
  assert.equal((await post('from-ai', '/chat', '[null]')).status, 400);

  const voted = JSON.parse((await post('from-react', '/api/choices/2/votes', '')).text);
  assert.deepEqual(
    voted.map(({ votes }: { votes: number }) => votes),
    [0, 1, 0],
  );
}

test('each template is listed, has a folder, and becomes an app that answers', async () => {
  const { items } = (await rpc('apps.templates', {})).result;
  assert.deepEqual(items, templates);
  assert.deepEqual(
    items.map(({ name }: { name: string }) => name).toSorted(),
    readdirSync(TEMPLATES).toSorted(),
  );
  const start = async ({ name, title }: (typeof templates)[number]) => {
    const id = await cellar.create(`from-${name}`);
    const { sha, deploy_id } = (await rpc('source.template', { id, template: name })).result;
    const deploy = await ended(id, deploy_id);
    assert.deepEqual([deploy.status, deploy.sha, deploy.error], ['live', sha, null], name);
    assert.equal(deploy.message, `Start from the template ${title}`);
    assert.equal((await cellar.get(`from-${name}`)).status, 200);
  };
  await Promise.all(templates.map(start));
  const body = new URLSearchParams({ name: 'Ada <3', message: 'hello' });
  const signed = await cellar.get('from-guestbook', '/', { method: 'POST', body, redirect: 'manual' });
  assert.equal(signed.status, 303);
  assert.match((await cellar.get('from-guestbook')).text, /<b>Ada &#60;3<\/b> hello/);
  for (const name of SHOWN) {
    const page = await cellar.get(`from-${name}`);
    assert.match(page.text, /<title>/, name);
    assert.match(page.text, /href="\/favicon\.svg"/, name);
    const icon = await cellar.get(`from-${name}`, '/favicon.svg');
    assert.equal(icon.headers.get('content-type'), 'image/svg+xml', name);
  }
  await eachWorks();
  const again = await rpc('source.template', { id: 'from-hello', template: 'site' });
  assert.equal(again.error.data.code, 'commit_conflict');
});

test('a public repository is imported once, with its history, and deployed', async () => {
  const { repository, sha } = commit(cellar.directory, { 'index.js': WORKER, 'src/x.txt': 'x' });
  repositories.set('good', repository);
  const url = `https://localhost:${port}/good`;
  const id = await cellar.create('imported');
  const imported = (await rpc('source.import', { id, url })).result;
  assert.equal(imported?.sha, sha);
  const deploy = await ended(id, imported.deploy_id);
  assert.deepEqual([deploy.status, deploy.trigger, deploy.message], ['live', 'import', 'A commit']);
  assert.equal((await cellar.get('imported')).text, 'imported');
  assert.equal((await rpc('source.import', { id, url })).error.data.code, 'commit_conflict');
  assert.deepEqual(
    readdirSync(join(cellar.data, 'builds')).filter((name) => name.startsWith('import-')),
    [],
  );
});

test('an import from anything but a public repository is refused with the reason, and leaves the app empty', async () => {
  const id = await cellar.create('refused');
  const refused: [string, string, RegExp][] = [
    [`https://127.0.0.2:${port}/good`, 'import_failed', /127\.0\.0\.2 is not a public address/],
    ['https://169.254.169.254/latest', 'import_failed', /not a public address/],
    ['https://nobody.invalid/x', 'import_failed', /the host nobody\.invalid cannot be found/],
    [`https://localhost:${port}/missing`, 'import_failed', /not found/],
    [`https://localhost:${port}/private`, 'import_failed', /no public repository/],
    [`https://localhost:${port}/elsewhere`, 'import_failed', /redirects to another address/],
    [`http://localhost:${port}/good`, 'invalid_input', /./],
    [`https://me:secret@localhost:${port}/good`, 'invalid_input', /./],
    ['file:///etc', 'invalid_input', /./],
    ['ext::sh -c id', 'invalid_input', /./],
  ];
  for (const [url, code, words] of refused) {
    const { data } = (await rpc('source.import', { id, url })).error;
    assert.equal(data.code, code, `${url}: ${data.detail}`);
    assert.match(data.detail, words, url);
  }
  assert.equal((await cellar.call('GET', `/v1/apps/${id}/tree`)).body.sha, null);
});

test('imports of one account run one after another, and do not delay those of another account', async () => {
  const { repository, sha } = commit(cellar.directory, { 'index.js': WORKER });
  repositories.set('other', repository);
  const importSilent = async (slug: string) => {
    const id = await cellar.create(slug);
    return rpc('source.import', { id, url: `https://localhost:${port}/silent` });
  };
  const arrival = () => once(arrivals, 'silent', { signal: AbortSignal.timeout(DEPLOY_MS) });
  const first = arrival();
  const silent = [importSilent('silent-one'), importSilent('silent-two')];
  const [response] = await first;
  // A running probe shows that the import gets a minimum share of busy processors.
  const isProbe = (command: string[]) => command.some((word) => word.startsWith('while read -r line'));
  assert.ok(descendants(cellar.pid).some(({ command }) => isProbe(command)));
  const second = arrival();

  const neighbour = { name: 'Neighbour', email: 'neighbour@example.com' };
  const { id: account } = (await rpc('accounts.create', neighbour)).result;
  const { key } = (await rpc('keys.create', { account })).result;
  const { id } = (await rpc('apps.create', { slug: 'neighbour' }, key)).result;
  const { result, error } = await rpc('source.import', { id, url: `https://localhost:${port}/other` }, key);
  assert.equal(result?.sha, sha, JSON.stringify(error));

  response.writeHead(404).end();
  (await second)[0].writeHead(404).end();
  for (const { error } of await Promise.all(silent)) assert.equal(error.data.code, 'import_failed');
});
