// The page at the base domain, while there is no control UI.
import { PAGE_HEADERS } from './contract/pages.ts';
import type { Env } from './env.ts';

/** Says what this is, and where its doors are. */
export function page(env: Env, status: 200 | 404): Response {
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Cellar</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 38rem; margin: 15vh auto 0; padding: 0 1rem; color: #222; background: #fff }
code { font-size: .95em }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #161616 } a { color: #9cf } }
</style>
</head>
<body>
<h1>Cellar</h1>
<p>${status === 404 ? 'There is no such page here. ' : ''}This machine runs Workers apps. Push to <code>main</code> over git, and Cellar builds and serves the app.</p>
<p>API: <code>${escapeHtml(env.PUBLIC_API_URL)}</code><br>
Git: <code>${escapeHtml(env.PUBLIC_GIT_URL)}/&lt;slug&gt;</code><br>
Apps: <code>${escapeHtml(env.PUBLIC_APP_URL.replace('{slug}', '<slug>'))}</code></p>
<p>There is no control UI at this address.</p>
</body>
</html>
`;
  return new Response(html, { status, headers: PAGE_HEADERS });
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
