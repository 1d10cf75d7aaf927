// The API reference at `/docs`: Swagger UI for the OpenAPI document. It loads nothing from other servers.
import type { RequestContext } from './context.ts';
import { Problem } from './problem.ts';

/** Files of Swagger UI by path, with their media types. The host stores the files. */
const viewerFiles: Readonly<Record<string, { file: string; type: string }>> = {
  '/docs/viewer.js': { file: 'swagger-ui-bundle.js', type: 'text/javascript; charset=utf-8' },
  '/docs/viewer.css': { file: 'swagger-ui.css', type: 'text/css; charset=utf-8' },
};
/** `Cache-Control` of the files of Swagger UI, which change only with a new version of Cellar. */
const CACHE_CONTROL = 'public, max-age=3600';
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Cellar API</title>
<link rel="stylesheet" href="/docs/viewer.css">
</head>
<body>
<div id="viewer"></div>
<script src="/docs/viewer.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;
const START = `SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#viewer',
  deepLinking: true,
  docExpansion: 'none',
  filter: true,
  validatorUrl: null,
});
`;

/** Answers `/docs` and the paths below it. Needs no token: it shows nothing about this machine's apps. */
export async function reference(
  request: Request,
  pathname: string,
  context: RequestContext,
): Promise<Response> {
  if (request.method !== 'GET' && request.method !== 'HEAD') throw new Problem('route_not_found');
  if (pathname === '/docs') return sent(PAGE, 'text/html; charset=utf-8');
  if (pathname === '/docs/start.js') return sent(START, 'text/javascript; charset=utf-8');
  const viewer = viewerFiles[pathname];
  if (viewer === undefined) throw new Problem('route_not_found', `There is no route GET ${pathname}.`);
  const { body } = await context.host.bytes('GET /viewer', {}, { query: { file: viewer.file } });
  return new Response(body, {
    encodeBody: 'manual',
    headers: {
      'content-type': viewer.type,
      'content-encoding': 'gzip',
      'cache-control': CACHE_CONTROL,
      'x-content-type-options': 'nosniff',
    },
  });
}

function sent(text: string, type: string): Response {
  return new Response(text, {
    headers: {
      'content-type': type,
      'content-security-policy': POLICY,
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
    },
  });
}
