// Calls the method of the vector index that the path names with the arguments in the body.
export default {
  async fetch(request, { VECTORS }) {
    const method = new URL(request.url).pathname.slice(1);
    try {
      return Response.json(await VECTORS[method](...(await request.json())));
    } catch (error) {
      return Response.json({ error: error.message }, { status: 500 });
    }
  },
};
