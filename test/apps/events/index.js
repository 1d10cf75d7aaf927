// Sends the records of each POST to a pipeline, and lists what the pipeline has written.
export default {
  async fetch(request, { EVENTS, FILES }) {
    try {
      const { pathname } = new URL(request.url);
      if (request.method === 'POST') {
        await EVENTS.send(await request.json());
        return new Response('sent');
      }
      const { objects } = await FILES.list();
      if (pathname === '/count') return new Response(`${objects.length}`);
      const written = await Promise.all(
        objects.map(async ({ key }) => ({ key, text: await (await FILES.get(key)).text() })),
      );
      return Response.json(
        written.map(({ key, text }) => ({
          key,
          ids: [...text.matchAll(/"id":(\d+)/g)].map(([, id]) => Number(id)),
        })),
      );
    } catch (error) {
      return new Response(String(error));
    }
  },
};
