// Projects whose generators fetch templates from GitHub. Here their files are written as the documentation shows for a
// manual set-up.
import { type FrameworkProject, GITIGNORE, json, packageJson } from './project.ts';

/** All packages of React Router must have one version, as in its templates. */
const REACT_ROUTER_VERSION = '7.18.4';
const REACT_ROUTER = {
  'app/root.tsx': `import { Links, Meta, Outlet, Scripts, ScrollRestoration } from 'react-router';

export function Layout({ children }: { children: React.ReactNode }) {
  return (
    <html lang="en">
      <head>
        <meta charSet="utf-8" />
        <Meta />
        <Links />
      </head>
      <body>
        {children}
        <ScrollRestoration />
        <Scripts />
      </body>
    </html>
  );
}

export default function App() {
  return <Outlet />;
}
`,
  'app/routes.ts': `import { index, type RouteConfig, route } from '@react-router/dev/routes';

export default [index('routes/home.tsx'), route('hello/:name', 'routes/hello.tsx')] satisfies RouteConfig;
`,
  'app/routes/hello.tsx': `export default function Hello({ params }) {
  return <h1>Hello {params.name}</h1>;
}
`,
};

export const written: FrameworkProject[] = [
  {
    name: 'React Router, Cloudflare plugin',
    byHand: {
      ...REACT_ROUTER,
      '.gitignore': GITIGNORE,
      'package.json': packageJson({
        scripts: {
          build: 'react-router build',
          dev: 'react-router dev',
          deploy: 'npm run build && wrangler deploy',
        },
        dependencies: { isbot: '^5', react: '^19', 'react-dom': '^19', 'react-router': '^7' },
        devDependencies: {
          '@cloudflare/vite-plugin': '^1',
          '@react-router/dev': '^7',
          '@types/react': '^19',
          '@types/react-dom': '^19',
          typescript: '^5',
          vite: '^7',
          wrangler: '^4',
        },
      }),
      'wrangler.jsonc': json({
        name: 'app',
        compatibility_date: '2026-10-01',
        main: './workers/app.ts',
        vars: { VALUE_FROM_CLOUDFLARE: 'Hello from Cloudflare' },
        observability: { enabled: true },
      }),
      'vite.config.ts': `import { cloudflare } from '@cloudflare/vite-plugin';
import { reactRouter } from '@react-router/dev/vite';
import { defineConfig } from 'vite';

export default defineConfig({ plugins: [cloudflare({ viteEnvironment: { name: 'ssr' } }), reactRouter()] });
`,
      'react-router.config.ts': `import type { Config } from '@react-router/dev/config';

export default { ssr: true, future: { v8_viteEnvironmentApi: true } } satisfies Config;
`,
      'workers/app.ts': `import { createRequestHandler } from 'react-router';

const requestHandler = createRequestHandler(() => import('virtual:react-router/server-build'), import.meta.env.MODE);

export default {
  async fetch(request, env, ctx) {
    return requestHandler(request, { cloudflare: { env, ctx } });
  },
};
`,
      'app/entry.server.tsx': `import { isbot } from 'isbot';
import { renderToReadableStream } from 'react-dom/server';
import type { AppLoadContext, EntryContext } from 'react-router';
import { ServerRouter } from 'react-router';

export default async function handleRequest(
  request: Request,
  status: number,
  headers: Headers,
  context: EntryContext,
  _load: AppLoadContext,
) {
  const body = await renderToReadableStream(<ServerRouter context={context} url={request.url} />);
  if (isbot(request.headers.get('user-agent') ?? '')) await body.allReady;
  headers.set('Content-Type', 'text/html');
  return new Response(body, { headers, status });
}
`,
      'app/routes/home.tsx': `export function loader({ context }) {
  return { message: context.cloudflare.env.VALUE_FROM_CLOUDFLARE };
}

export default function Home({ loaderData }) {
  return <h1>{loaderData.message}</h1>;
}
`,
    },
    manager: 'npm',
    checks: [
      { path: '/', text: /<h1>Hello from Cloudflare<\/h1>/ },
      { path: '/hello/Ada', text: /Hello (<!-- -->)?Ada/ },
      { path: '/nowhere', status: 404, text: /404/ },
    ],
    assets: false,
  },
  {
    name: 'React Router, without a configuration',
    byHand: {
      ...REACT_ROUTER,
      '.gitignore': GITIGNORE,
      'package.json': packageJson({
        scripts: { build: 'react-router build', dev: 'react-router dev' },
        dependencies: {
          '@react-router/node': REACT_ROUTER_VERSION,
          isbot: '^5',
          react: '^19',
          'react-dom': '^19',
          'react-router': REACT_ROUTER_VERSION,
        },
        devDependencies: { '@react-router/dev': REACT_ROUTER_VERSION, typescript: '^5', vite: '^7' },
      }),
      'vite.config.ts': `import { reactRouter } from '@react-router/dev/vite';
import { defineConfig } from 'vite';

export default defineConfig({ plugins: [reactRouter()] });
`,
      'app/routes/home.tsx':
        'export default function Home() {\n  return <h1>Hello from the server</h1>;\n}\n',
    },
    manager: 'npm',
    checks: [
      { path: '/', text: /<h1>Hello from the server<\/h1>/ },
      { path: '/hello/Ada', text: /Hello (<!-- -->)?Ada/ },
    ],
    assets: true,
  },
  {
    name: 'React Router, single-page app',
    byHand: {
      '.gitignore': GITIGNORE,
      'package.json': packageJson({
        scripts: { build: 'react-router build', dev: 'react-router dev' },
        dependencies: {
          '@react-router/node': '7.18.4',
          isbot: '^5',
          react: '^19',
          'react-dom': '^19',
          'react-router': '7.18.4',
        },
        devDependencies: { '@react-router/dev': '7.18.4', typescript: '^5', vite: '^7' },
      }),
      'vite.config.ts':
        "import { reactRouter } from '@react-router/dev/vite';\nimport { defineConfig } from 'vite';\n\nexport default defineConfig({ plugins: [reactRouter()] });\n",
      'react-router.config.ts': 'export default { ssr: false };\n',
      'app/root.tsx': `import { Outlet, Scripts } from 'react-router';

export function Layout({ children }: { children: React.ReactNode }) {
  return (
    <html lang="en">
      <body>
        {children}
        <Scripts />
      </body>
    </html>
  );
}

export function HydrateFallback() {
  return <p>Loading</p>;
}

export default function App() {
  return <Outlet />;
}
`,
      'app/routes.ts':
        "import { index } from '@react-router/dev/routes';\n\nexport default [index('home.tsx')];\n",
      'app/home.tsx': 'export default function Home() {\n  return <h1>Home</h1>;\n}\n',
    },
    manager: 'npm',
    checks: [
      { path: '/', text: /Loading/ },
      { path: '/some/route', text: /Loading/ },
    ],
    assets: false,
  },
  {
    name: 'Remix, Cloudflare Pages',
    byHand: {
      '.gitignore': GITIGNORE,
      'package.json': packageJson({
        sideEffects: false,
        scripts: {
          build: 'remix vite:build',
          deploy: 'npm run build && wrangler pages deploy',
          dev: 'remix vite:dev',
        },
        dependencies: {
          '@remix-run/cloudflare': '^2',
          '@remix-run/cloudflare-pages': '^2',
          '@remix-run/react': '^2',
          isbot: '^4',
          react: '^18',
          'react-dom': '^18',
        },
        devDependencies: {
          '@cloudflare/workers-types': '^4',
          '@remix-run/dev': '^2',
          typescript: '^5',
          vite: '^5',
        },
        overrides: { wrangler: '^4' },
      }),
      'wrangler.toml':
        'name = "app"\ncompatibility_date = "2025-02-01"\npages_build_output_dir = "./build/client"\n\n[vars]\nWORD = "of a loader"\n',
      'vite.config.ts':
        "import { vitePlugin as remix } from '@remix-run/dev';\nimport { defineConfig } from 'vite';\n\nexport default defineConfig({ plugins: [remix()], ssr: { resolve: { conditions: ['workerd', 'worker', 'browser'] } }, resolve: { mainFields: ['browser', 'module', 'main'] } });\n",
      'functions/[[path]].ts': `import { createPagesFunctionHandler } from '@remix-run/cloudflare-pages';
import * as build from '../build/server';

export const onRequest = createPagesFunctionHandler({
  build,
  getLoadContext: ({ context }) => ({ cloudflare: { env: context.cloudflare.env } }),
});
`,
      'public/robots.txt': 'User-agent: *\nAllow: /\n',
      'public/_routes.json': json({ version: 1, include: ['/*'], exclude: ['/robots.txt', '/assets/*'] }),
      'app/entry.server.tsx': `import type { AppLoadContext, EntryContext } from '@remix-run/cloudflare';
import { RemixServer } from '@remix-run/react';
import { renderToReadableStream } from 'react-dom/server';

export default async function handleRequest(
  request: Request,
  status: number,
  headers: Headers,
  context: EntryContext,
  _load: AppLoadContext,
) {
  const body = await renderToReadableStream(<RemixServer context={context} url={request.url} />);
  headers.set('Content-Type', 'text/html');
  return new Response(body, { headers, status });
}
`,
      'app/root.tsx': `import { Links, Meta, Outlet, Scripts } from '@remix-run/react';

export function Layout({ children }: { children: React.ReactNode }) {
  return (
    <html lang="en">
      <head>
        <Meta />
        <Links />
      </head>
      <body>
        {children}
        <Scripts />
      </body>
    </html>
  );
}

export default function App() {
  return <Outlet />;
}
`,
      'app/routes/_index.tsx': `import { useLoaderData } from '@remix-run/react';

export const loader = ({ context }) => ({ word: context.cloudflare.env.WORD });

export default function Index() {
  return <h1>{useLoaderData<typeof loader>().word}</h1>;
}
`,
    },
    manager: 'npm',
    checks: [
      { path: '/', text: /<h1>of a loader<\/h1>/ },
      { path: '/robots.txt', text: /^User-agent/ },
      { path: '/nowhere', status: 404, text: /404/ },
    ],
    assets: false,
  },
  {
    name: 'SolidStart',
    byHand: {
      '.gitignore': GITIGNORE,
      'package.json': packageJson({
        scripts: { dev: 'vinxi dev', build: 'vinxi build', start: 'vinxi start' },
        dependencies: {
          '@solidjs/router': '^0.15',
          '@solidjs/start': '^1.1',
          'solid-js': '^1.9',
          vinxi: '^0.5',
        },
      }),
      'app.config.ts': `import { defineConfig } from '@solidjs/start/config';

export default defineConfig({
  server: {
    preset: 'cloudflare-module',
    compatibilityDate: '2025-09-01',
    cloudflare: { deployConfig: true, nodeCompat: true },
  },
});
`,
      'src/app.tsx': `import { Router } from '@solidjs/router';
import { FileRoutes } from '@solidjs/start/router';
import { Suspense } from 'solid-js';

export default function App() {
  return (
    <Router root={(props) => <Suspense>{props.children}</Suspense>}>
      <FileRoutes />
    </Router>
  );
}
`,
      'src/entry-client.tsx':
        "// @refresh reload\nimport { mount, StartClient } from '@solidjs/start/client';\n\nmount(() => <StartClient />, document.getElementById('app')!);\n",
      'src/entry-server.tsx': `// @refresh reload
import { createHandler, StartServer } from '@solidjs/start/server';

export default createHandler(() => (
  <StartServer
    document={({ assets, children, scripts }) => (
      <html lang="en">
        <head>{assets}</head>
        <body>
          <div id="app">{children}</div>
          {scripts}
        </body>
      </html>
    )}
  />
));
`,
      'src/routes/index.tsx': 'export default function Home() {\n  return <h1>Hello Solid</h1>;\n}\n',
      'src/routes/hello/[name].tsx': `import { useParams } from '@solidjs/router';

export default function Hello() {
  return <h1>Hello {useParams().name}</h1>;
}
`,
      'tsconfig.json': json({
        compilerOptions: { jsx: 'preserve', jsxImportSource: 'solid-js', moduleResolution: 'bundler' },
      }),
    },
    manager: 'pnpm',
    checks: [
      { path: '/', text: /Hello Solid/ },
      { path: '/hello/Ada', text: /Hello (<!--.*?-->)*Ada/ },
    ],
    assets: false,
  },
  {
    name: 'VitePress',
    byHand: {
      '.gitignore': 'node_modules\ndocs/.vitepress/dist\ndocs/.vitepress/cache\n',
      'package.json': packageJson({
        scripts: { build: 'vitepress build docs', dev: 'vitepress dev docs' },
        devDependencies: { vitepress: '^1' },
      }),
      'docs/.vitepress/config.mts':
        "import { defineConfig } from 'vitepress';\n\nexport default defineConfig({ title: 'Words' });\n",
      'docs/index.md': '# Home\n\nA page.\n',
      'docs/guide.md': '# Guide\n',
    },
    manager: 'npm',
    checks: [
      { path: '/', text: /A page/ },
      { path: '/guide', text: /Guide/ },
      { path: '/nowhere', status: 404, text: /404/ },
    ],
    assets: false,
  },
  {
    name: 'Eleventy',
    byHand: {
      '.gitignore': 'node_modules\n_site\n',
      'package.json': json({
        name: 'app',
        scripts: { build: 'eleventy', start: 'eleventy --serve' },
        devDependencies: { '@11ty/eleventy': '^3' },
      }),
      'index.md': '---\ntitle: Home\n---\n\n# A page\n',
      'about.njk': '---\ntitle: About\n---\n<h1>{{ title }}</h1>\n',
    },
    manager: 'yarn',
    checks: [
      { path: '/', text: /A page/ },
      { path: '/about/', text: /<h1>About<\/h1>/ },
    ],
    assets: false,
  },
  {
    name: 'Hono and Vite on Cloudflare Pages',
    byHand: {
      '.gitignore': GITIGNORE,
      'package.json': packageJson({
        scripts: { build: 'vite build', dev: 'vite', deploy: 'npm run build && wrangler pages deploy' },
        dependencies: { hono: '^4' },
        devDependencies: { '@hono/vite-build': '^1', vite: '^7', wrangler: '^4' },
      }),
      'wrangler.jsonc': json({
        name: 'app',
        compatibility_date: '2026-10-01',
        pages_build_output_dir: './dist',
        kv_namespaces: [{ binding: 'KV', id: 'kv' }],
      }),
      'vite.config.ts':
        "import build from '@hono/vite-build/cloudflare-pages';\nimport { defineConfig } from 'vite';\n\nexport default defineConfig({ plugins: [build()] });\n",
      'public/static/style.css': 'h1 { color: blue }\n',
      'src/index.tsx': `import { Hono } from 'hono';

const app = new Hono<{ Bindings: { KV: KVNamespace } }>();
app.get('/', (c) => c.html(<h1>Hello!</h1>));
app.get('/kept/:name', async (c) => {
  await c.env.KV.put(c.req.param('name'), 'kept');
  return c.text((await c.env.KV.get(c.req.param('name')))!);
});

export default app;
`,
      'tsconfig.json': json({ compilerOptions: { jsx: 'react-jsx', jsxImportSource: 'hono/jsx' } }),
    },
    manager: 'pnpm',
    checks: [
      { path: '/', text: /<h1>Hello!<\/h1>/ },
      { path: '/kept/a', text: /^kept$/ },
      { path: '/static/style.css', text: /color: blue/ },
    ],
    assets: false,
  },
];
