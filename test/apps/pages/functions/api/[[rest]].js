export const onRequest = async ({ env, request, params }) => {
  const page = await env.ASSETS.fetch(new URL('/', request.url));
  return new Response(`${params.rest.join('+')}: ${(await page.text()).trim()}`);
};
