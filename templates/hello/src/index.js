export default {
  /** Answers every request. What `console.log` prints is in the app's log. */
  fetch(request) {
    const { pathname, host } = new URL(request.url);
    console.log(`${request.method} ${pathname}`);
    if (pathname === '/') return new Response(`Hello from ${host}\n`);
    return new Response('There is nothing here\n', { status: 404 });
  },
};
