// Stores the body of a PUT under its path, and returns it.
export default {
  async fetch(request, { FILES }) {
    const { pathname, searchParams } = new URL(request.url);
    const key = decodeURIComponent(pathname.slice(1));
    try {
      if (request.method === 'PUT') return Response.json(await FILES.put(key, request.body));
      if (request.method === 'DELETE') return Response.json(await FILES.delete(key));
      if (key === '') {
        const { objects } = await FILES.list({ prefix: searchParams.get('prefix') ?? '' });
        return Response.json(objects.map((object) => object.key));
      }
      const object = await FILES.get(key);
      return object === null ? new Response('none', { status: 404 }) : new Response(object.body);
    } catch (error) {
      return new Response(error.message, { status: 500 });
    }
  },
};
