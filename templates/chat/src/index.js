import page from './page.html';

export { Room } from './room.js';

export default {
  fetch(request, env) {
    const { pathname } = new URL(request.url);
    const room = /^\/rooms\/([\w-]{1,40})$/.exec(pathname)?.[1];
    if (room) return env.ROOMS.getByName(room).fetch(request);
    if (pathname !== '/') return new Response('There is nothing here\n', { status: 404 });
    return new Response(page, { headers: { 'content-type': 'text/html; charset=utf-8' } });
  },
};
