import page from './page.html';

export { Room } from './room.js';

export default {
  fetch(request, env) {
    const { pathname } = new URL(request.url);
    const [, room, name, what] = /^\/(rooms)\/([\w-]{1,40})\/(socket|messages)$/.exec(pathname) ?? [];
    if (room)
      return env.ROOMS.get(env.ROOMS.idFromName(name)).fetch(new Request(`http://room/${what}`, request));
    if (pathname !== '/') return new Response('Not found\n', { status: 404 });
    return new Response(page, { headers: { 'content-type': 'text/html; charset=utf-8' } });
  },
};
