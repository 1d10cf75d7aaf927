// `/info` describes the image that is sent. `/watermark` draws a smaller copy of it in a corner, as WebP. `/transform?options`
// transforms it by JSON, into the format `to`. Errors are answered with their code.
export default {
  async fetch(request, env) {
    const { pathname, searchParams } = new URL(request.url);
    try {
      if (pathname === '/info') return Response.json(await env.IMAGES.info(request.body));
      if (pathname === '/transform') return await transform(request, env, searchParams);
      if (pathname === '/watermark') return await watermark(request, env);
      return new Response('not found', { status: 404 });
    } catch ({ code, message }) {
      return Response.json({ code, message }, { status: 400 });
    }
  },
};

async function transform({ body }, { IMAGES }, searchParams) {
  const options = JSON.parse(searchParams.get('options') ?? '{}');
  const format = searchParams.get('to') ?? 'image/png';
  return (await IMAGES.input(body).transform(options).output({ format })).response();
}

async function watermark({ body }, { IMAGES }) {
  const [canvas, copy] = body.tee();
  const mark = IMAGES.input(copy).transform({ width: 20, height: 20, fit: 'squeeze' });
  const result = await IMAGES.input(canvas)
    .transform({ width: 100 })
    .draw(mark, { bottom: 5, right: 5, opacity: 0.5 })
    .output({ format: 'image/webp', quality: 80 });
  return new Response(result.image(), { headers: { 'content-type': result.contentType() } });
}
