// Client certificates of an account, on a real host with Wrangler and a server that demands one.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { CERTIFICATE } from '../support/git/git-host.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const FILES = join(import.meta.dirname, '../support/mtls');
const file = (name: string) => join(FILES, name);
const read = (name: string) => readFileSync(file(name), 'utf8');
const cellar = new Cellar({
  RUNNER_EGRESS_ALLOW: '127.0.0.1',
  NODE_EXTRA_CA_CERTS: file('authority.pem'),
});
const rpc = rpcOf(cellar);
const INDEX = readFileSync('test/apps/mtls/index.js', 'utf8');
const CONFIG = JSON.parse(readFileSync('test/apps/mtls/wrangler.jsonc', 'utf8'));
let server: Server;
let unknown: Server;
let project: Project;
let account = '';
let certificates = '';
let id = '';

before(async () => {
  const pem = read('server.pem');
  server = await listening({ key: pem, cert: pem, ca: read('authority.pem'), requestCert: true });
  server.on('upgrade', ({ headers }, socket) => {
    const key = `${headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash('sha1').update(key).digest('base64');
    const head = `HTTP/1.1 101 Switching
upgrade: websocket
connection: upgrade
sec-websocket-accept: ${accept}`;
    // Sends one text frame, and ends the connection.
    socket.end(
      Buffer.concat([
        Buffer.from(`${head}

`),
        Buffer.from([0x81, 6]),
        Buffer.from('hello!'),
      ]),
    );
  });
  const other = readFileSync(CERTIFICATE);
  unknown = await listening({ key: other, cert: other });
  await cellar.start();
  project = new Project(cellar, { 'wrangler.jsonc': '{}' });
  const words = ['--cert', file('client.pem'), '--key', file('client-key.pem'), '--name', 'shop'];
  const uploaded = await wrangler('mtls-certificate', 'upload', ...words);
  id = /ID: ([0-9a-f-]{36})/.exec(uploaded)![1]!;
  assert.match(uploaded, /Issuer: CN=Intermediate authority/);
  account = (await cellar.call('GET', '/client/v4/accounts')).body.result[0].id;
  certificates = `/client/v4/accounts/${account}/mtls_certificates`;
});
after(async () => {
  await cellar[Symbol.asyncDispose]();
  for (const each of [server, unknown]) {
    each.closeAllConnections();
    each.close();
  }
});

/** Starts a server that answers with the name in the client's certificate and the body of the request. */
async function listening(options: object): Promise<Server> {
  const made = createServer({ rejectUnauthorized: true, ...options }, (request, response) => {
    const { subject } = (request.socket as TLSSocket).getPeerCertificate();
    response.write(`${subject?.CN ?? 'nobody'}: `);
    request.pipe(response);
  });
  made.on('tlsClientError', () => {});
  await new Promise<void>((resolve) => made.listen(0, resolve));
  return made;
}

function addressOf(of: Server, host = '127.0.0.1'): string {
  return `https://${host}:${(of.address() as AddressInfo).port}/`;
}

async function wrangler(...words: string[]): Promise<string> {
  const { code, stdout, stderr } = await project.wrangler(...words);
  assert.equal(code, 0, stdout + stderr);
  return stdout + stderr;
}

function filesOf(name: string, bound = [{ binding: 'CERT', certificate_id: id }]): Record<string, string> {
  const config = { ...CONFIG, name, mtls_certificates: bound };
  return { 'index.js': INDEX, 'wrangler.jsonc': JSON.stringify(config) };
}

async function ask(app: string, path: string, url: string): Promise<[number, string]> {
  const { status, text } = await cellar.get(app, `${path}?url=${encodeURIComponent(url)}`);
  return [status, text];
}

async function upload(body: object, key = cellar.key) {
  const { status, body: answer } = await cellar.call('POST', certificates, body, key);
  return { status, message: answer.errors[0]?.message as string | undefined };
}

const given = () => ({ certificates: read('client.pem'), private_key: read('client-key.pem') });

test('a pushed and an uploaded app show their certificate to a server that demands one', async () => {
  await cellar.deploy('pushed', 'mtls', filesOf('pushed'));
  const { code, stdout, stderr } = await new Project(cellar, filesOf('uploaded')).wrangler('deploy');
  assert.equal(code, 0, stdout + stderr);
  for (const app of ['pushed', 'uploaded']) {
    assert.deepEqual(await ask(app, '/with', addressOf(server)), [200, 'client: ']);
    const [status, text] = await ask(app, '/without', addressOf(server));
    assert.equal(status, 500, text);
  }
  const body = 'a body '.repeat(100_000);
  const path = `/with?url=${encodeURIComponent(addressOf(server))}`;
  const sent = await cellar.open('pushed', path, { method: 'POST', body });
  assert.equal(await sent.text(), `client: ${body}`);
  assert.deepEqual(await ask('pushed', '/socket', addressOf(server)), [200, 'hello!']);
});

test('the certificate stays with the app over a restart of the host', async () => {
  await cellar.stop();
  await cellar.start();
  assert.deepEqual(await ask('pushed', '/with', addressOf(server)), [200, 'client: ']);
});

test('a binding reaches only what fetch() reaches, and only servers whose certificate is valid', async () => {
  for (const url of [addressOf(server, '127.0.0.2'), 'https://169.254.169.254/', 'https://10.0.0.1/'])
    for (const way of ['/with', '/without']) {
      const [status, text] = await ask('pushed', way, url);
      assert.equal(status, 500, `${way} ${url}: ${text}`);
    }
  for (const words of ['/connect?with&', '/connect?']) {
    const { port } = server.address() as AddressInfo;
    const { status, text } = await cellar.get('pushed', `${words}url=127.0.0.2:${port}`);
    assert.equal(status, 500, text);
  }
  const [status, text] = await ask('pushed', '/with', addressOf(unknown));
  assert.equal(status, 500, text);
});

test('an app cannot read the key', async () => {
  const [, line] = read('client-key.pem').split('\n') as [string, string];
  for (const path of ['/proc/self/fd/4', '/proc/self/environ', '/dev/fd/4', '/dev/shm']) {
    const [status, text] = await ask('pushed', '/read', path);
    assert.equal(status, 500, text);
  }
  const [, shown] = await ask('pushed', '/', '');
  assert.ok(!shown.includes(line), shown);
});

test('no file has a key as it is', async () => {
  // A file with the unencrypted key would contain these lines.
  for (const line of read('client-key.pem').split('\n').slice(2, 5)) {
    const words = ['--recursive', '--files-with-matches', '--text', '--no-messages', '--devices=skip', '-F'];
    const found = (text: string, ...places: string[]) =>
      spawnSync('grep', [...words, '--', text, ...places], { encoding: 'utf8' });
    assert.equal(found(line, cellar.data, '/dev/shm').stdout, '');
    assert.notEqual(found(id, cellar.data).stdout, '', 'the certificate is there');
  }
  const { body } = await cellar.call('GET', `/client/v4/accounts/${account}/workers/scripts/pushed/settings`);
  assert.deepEqual(body.result.bindings, [{ type: 'mtls_certificate', name: 'CERT', certificate_id: id }]);
});

test('an account has its certificates alone', async () => {
  const eve = await rpc('accounts.create', { name: 'Eve', email: 'eve@example.com' });
  const { key } = await rpc('keys.create', { account: eve.id });
  const { code, stdout, stderr } = await new Project(cellar, filesOf('thief')).run(['deploy'], {
    token: key,
  });
  assert.notEqual(code, 0);
  assert.match(stdout + stderr, new RegExp(`CERT: the owner of this app has no certificate ${id}`));
  for (const [path, status] of [
    [`${certificates}/${id}`, 403],
    [`/client/v4/accounts/${eve.id}/mtls_certificates/${id}`, 404],
  ] as const)
    for (const method of ['GET', 'DELETE'])
      assert.equal((await cellar.call(method, path, undefined, key)).status, status, `${method} ${path}`);
  const own = await cellar.call('GET', `/client/v4/accounts/${eve.id}/mtls_certificates`, undefined, key);
  assert.deepEqual(own.body.result, []);
});

test('uploads are checked, and numbers and scopes of keys', async () => {
  for (const [wrong, message] of [
    [{ private_key: read('server.pem') }, /"private_key" is not the key of the first certificate/],
    [{ certificates: read('version-1.pem') }, /not of version 3/],
    [{ certificates: 'x'.repeat(70_000) }, /65536/],
    [{ ca: true }, /does not store CA certificates/],
  ] as const) {
    const { status, message: said } = await upload({ ...given(), ...wrong });
    assert.equal(status, 400, String(said));
    assert.match(said ?? '', message);
  }
  const { key } = await rpc('keys.create', { account, name: 'deployer', scope: 'deploy' });
  assert.match((await upload(given(), key)).message!, /scope admin/);
  const listed = await wrangler('mtls-certificate', 'list');
  assert.match(listed, new RegExp(`ID: ${id}\\nName: shop\\nIssuer: CN=Intermediate authority`));
  for (let n = 0; n < 99; n++) assert.equal((await upload(given())).status, 200);
  assert.match((await upload(given())).message!, /may have at most 100 client certificates/);
});

test('a bound certificate is not deleted; one that no live version binds is', async () => {
  const refused = await project.wrangler('mtls-certificate', 'delete', '--id', id);
  assert.match(
    refused.stdout + refused.stderr,
    /bound by the apps pushed, uploaded: deploy each of them without the binding/,
  );
  await cellar.deployAgain('pushed', 'mtls', filesOf('pushed', []));
  await rpc('apps.delete', { id: 'uploaded' });
  await wrangler('mtls-certificate', 'delete', '--name', 'shop');
  assert.equal((await cellar.call('GET', `${certificates}/${id}`)).status, 404);
  const again = await new Project(cellar, filesOf('pushed')).wrangler('deploy');
  assert.match(again.stdout + again.stderr, /has no certificate/);
});
