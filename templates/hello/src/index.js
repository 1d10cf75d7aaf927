export default {
  /** Answers every request. The app's log shows what `console.log` prints. */
  fetch(request) {
    const { pathname, host } = new URL(request.url);
    console.log(`${request.method} ${pathname}`);
    if (pathname === '/') return new Response(`Hello from ${host}\n`);
    return new Response('There is nothing here\n', { status: 404 });
  },
};
