// An app that uses the Durable Objects of another: each path is one way, `/socket` is a WebSocket to an object.
const outcome = async (work) => {
  try {
    return await work();
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
};

const room = (env, name = 'kitchen') => env.ROOM.getByName(name);

export const ways = {
  ids: (env) => {
    const named = env.ROOM.idFromName('kitchen');
    const unique = env.ROOM.newUniqueId();
    const again = env.ROOM.idFromString(unique.toString());
    const stub = env.ROOM.get(named, { locationHint: 'weur' });
    return {
      named: named.toString(),
      knownName: named.name,
      same: named.equals(env.ROOM.idFromName('kitchen')),
      unique: unique.toString().length,
      again: again.equals(unique),
      stub: [stub.name, stub.id.equals(named)],
      again2: env.ROOM.getByName('kitchen').id.equals(named),
    };
  },
  forged: async (env) => [
    await outcome(() => env.ROOM.idFromString('0'.repeat(64))),
    await outcome(() => env.ROOM.idFromString('short')),
    await outcome(() => env.ROOM.newUniqueId({ jurisdiction: 'eu' }).toString().length),
    await outcome(() => env.ROOM.jurisdiction('mars')),
  ],
  names: async (env) => [
    await room(env, 'käse 💡').ownName(),
    await env.ROOM.get(env.ROOM.newUniqueId()).ownName(),
    await env.ROOM.get(env.ROOM.idFromString(env.ROOM.idFromName('kitchen').toString())).ownName(),
  ],
  add: async (env) => {
    const before = await room(env, 'sum').add(0);
    await Promise.all(Array.from({ length: 20 }, () => room(env, 'sum').add(1)));
    return [(await room(env, 'sum').add(0)) - before, await room(env, 'empty').add(0)];
  },
  values: async (env) => {
    const [date, bytes, error, nothing, list] = await room(env).echo(
      new Date(5),
      new Uint8Array([1, 2]),
      new RangeError('given'),
      undefined,
      [{ a: null }],
    );
    return [date.getTime(), [...bytes], `${error.name}: ${error.message}`, nothing === undefined, list];
  },
  properties: async (env) => [
    await room(env).motto,
    await outcome(async () => (await room(env).own) ?? 'none'),
  ],
  stubs: async (env) => {
    using basket = await room(env).basket();
    await basket.put('pear');
    const values = [];
    await room(env).each([1, 2, 3], (value) => {
      values.push(value);
    });
    using double = await room(env).double();
    return [await basket.put('plum'), await room(env).basket().put('fig'), values, await double(21)];
  },
  streams: async (env) => [
    await room(env).drain(new Response('x'.repeat(100_000)).body),
    await new Response(await room(env).words()).text(),
  ],
  errors: async (env) => [
    await outcome(() => room(env).fail()),
    await outcome(() => room(env).fetch('https://room/fail')),
  ],
  hidden: async (env) => {
    const isRefused = async (work) => {
      try {
        await work();
        return false;
      } catch {
        return true;
      }
    };
    return Promise.all(
      ['#secret', 'secret', 'constructor', 'own', 'ctx', 'env', '__proto__', 'nothing'].map((name) =>
        isRefused(() => room(env)[name]()),
      ),
    );
  },
  fetch: async (env) => {
    const seen = await (
      await room(env).fetch('https://room/a?b=c', { method: 'PUT', body: 'x', headers: { 'x-own': 'yes' } })
    ).json();
    const stream = await room(env).fetch('https://room/stream');
    const upload = await room(env).fetch('https://room/upload', {
      method: 'POST',
      body: 'x'.repeat(3_000_000),
    });
    return [seen, stream.status, stream.headers.get('x-room'), await stream.text(), await upload.text()];
  },
  strange: async (env) => {
    const answer = await room(env).fetch('https://room/strange');
    return [await answer.text(), answer.headers.get('x-cellar-thrown')];
  },
  headers: async (env) => {
    const forged = { id: env.ROOM.idFromName('other').toString(), name: 'other' };
    const headers = { 'x-cellar-object': JSON.stringify(forged), 'x-cellar-call': '{"kind":"fetch"}' };
    return (await room(env).fetch('https://room/', { headers })).json();
  },
};

export default {
  async fetch(request, env) {
    const name = new URL(request.url).pathname.slice(1);
    if (name === 'socket') return room(env, 'sockets').fetch(request);
    if (!Object.hasOwn(ways, name)) return new Response('visitor');
    return Response.json((await outcome(() => ways[name](env))) ?? null);
  },
};
