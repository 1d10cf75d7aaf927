// Answers with a secret of the Secrets Store that `/KEY` names by its binding, or with what its get() throws.
export default {
  async fetch(request, env) {
    const name = new URL(request.url).pathname.slice(1);
    try {
      return new Response(await env[name].get());
    } catch (error) {
      return new Response(error.message, { status: 500 });
    }
  },
};
