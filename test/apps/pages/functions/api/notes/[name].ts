interface Env {
  NOTES: KVNamespace;
}

export const onRequestGet: PagesFunction<Env, 'name'> = async ({ env, params }) =>
  new Response(await env.NOTES.get(String(params.name)));

export const onRequestPut: PagesFunction<Env, 'name'> = async ({ env, params, request }) => {
  await env.NOTES.put(String(params.name), await request.text());
  return new Response(null, { status: 201 });
};
