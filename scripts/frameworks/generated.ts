// Projects that a generator creates. For generators whose templates are on GitHub, the files are also here. They are used
// when GitHub cannot be reached.
import { type FrameworkProject, GITIGNORE, json } from './project.ts';

const ROBOTS = 'User-agent: *\nAllow: /\n';

const C3 = '--no-deploy --no-git --no-open --no-agents -y';

const NEXT = {
  generator: 'create-next-app',
  words:
    'app --ts --app --yes --use-npm --disable-git --empty --no-eslint --no-tailwind --no-agents-md --no-agent-feedback --skip-install',
} as const;
/** A page with a parameter, and a route that the Worker answers. Both build with and without Next's Cache Components. */
const NEXT_PAGES = {
  'app/hello/[name]/page.tsx': `import { Suspense } from 'react';

type Params = { params: Promise<{ name: string }> };

async function Greeting({ params }: Params) {
  return <h1>Hello {(await params).name}</h1>;
}

export default function Hello({ params }: Params) {
  return (
    <Suspense>
      <Greeting params={params} />
    </Suspense>
  );
}
`,
  'app/api/time/route.ts': `import { connection } from 'next/server';

export async function GET() {
  await connection();
  return Response.json({ now: Date.now() });
}
`,
};
const NEXT_CHECKS: FrameworkProject['checks'] = [
  { path: '/', text: /<html/ },
  { path: '/hello/Ada', text: /<h1>Hello (<!-- -->)?Ada/ },
  { path: '/api/time', text: /"now":\d+/, byScript: true },
];

const SVELTE_CHECKS: FrameworkProject['checks'] = [
  { path: '/', text: /<h1/ },
  { path: '/about', text: /About/ },
  { path: '/sverdle', text: /Sverdle/i },
  { path: '/nowhere', status: 404, text: /Not Found/i },
];
const TANSTACK_CHECKS: FrameworkProject['checks'] = [
  { path: '/', text: /<html/ },
  { path: '/about', text: /About/ },
  { path: '/nowhere', status: 404, text: /Not Found/i },
];

export const generated: FrameworkProject[] = [
  {
    name: 'plain Worker',
    generator: 'create-cloudflare',
    words: 'app --type=hello-world --lang=ts --no-deploy --no-git --no-open --no-agents -y',
    manager: 'npm',
    checks: [{ path: '/', text: /Hello World/ }],
    assets: false,
  },
  {
    name: 'Worker, Durable Object and assets',
    generator: 'create-cloudflare',
    words:
      'app --type=hello-world-durable-object-with-assets --lang=ts --no-deploy --no-git --no-open --no-agents -y',
    manager: 'npm',
    checks: [
      { path: '/', text: /<html/ },
      { path: '/message', text: /Hello/, byScript: true },
    ],
    assets: false,
  },
  {
    name: 'Hono',
    generator: 'create-hono',
    words: 'app --template=cloudflare-workers --pm=npm --install',
    byHand: {
      '.gitignore': GITIGNORE,
      'package.json': json({
        name: 'app',
        type: 'module',
        scripts: { dev: 'wrangler dev', deploy: 'wrangler deploy --minify' },
        dependencies: { hono: '^4' },
        devDependencies: { wrangler: '^4' },
      }),
      'wrangler.jsonc': json({ name: 'app', main: 'src/index.ts', compatibility_date: '2026-11-01' }),
      'src/index.ts': `import { Hono } from 'hono'

const app = new Hono()

app.get('/', (c) => {
  return c.text('Hello Hono!')
})

export default app
`,
    },
    manager: 'pnpm',
    checks: [{ path: '/', text: /^Hello Hono!$/ }],
    assets: false,
  },
  {
    name: 'Hono and OpenAPI',
    generator: 'create-cloudflare',
    words: 'app --type=openapi --lang=ts --no-deploy --no-git --no-open --no-agents -y',
    manager: 'npm',
    checks: [
      { path: '/', text: /openapi\.json/ },
      { path: '/openapi.json', text: /"\/api\/tasks"/ },
      { path: '/api/tasks', text: /"tasks":\s*\[/, byScript: true },
    ],
    assets: false,
  },
  {
    name: 'Vite + React',
    generator: 'create-vite',
    words: 'app --template=react-ts --no-interactive',
    manager: 'npm',
    checks: [
      { path: '/', text: /<div id="root">/ },
      { path: '/some/route', text: /<div id="root">/ },
    ],
    assets: true,
  },
  {
    name: "Vite + React, Cloudflare's plugin",
    generator: 'create-cloudflare',
    words:
      'app --framework=react --variant=react-ts --platform=workers --no-deploy --no-git --no-open --no-agents -y',
    manager: 'npm',
    checks: [
      { path: '/', text: /<div id="root">/ },
      { path: '/some/route', text: /<div id="root">/ },
      { path: '/api/', text: /"Cloudflare"/, byScript: true },
    ],
    assets: true,
  },
  {
    name: 'Vue with its router',
    generator: 'create-vue',
    words: 'app --ts --router',
    manager: 'yarn',
    checks: [
      { path: '/', text: /<div id="app">/ },
      { path: '/about', text: /<div id="app">/ },
    ],
    assets: true,
  },
  {
    name: 'Astro, static',
    generator: 'create-astro',
    words: 'app --template=minimal --install --no-git --yes --no-ai',
    byHand: astro(),
    files: {
      'public/robots.txt': ROBOTS,
      'src/pages/404.astro': '<html lang="en"><body><h1>Not here</h1></body></html>\n',
    },
    manager: 'pnpm',
    checks: [
      { path: '/', text: /<html lang="en"/ },
      { path: '/robots.txt', text: /^User-agent/ },
      { path: '/nowhere', status: 404, text: /Not here/ },
    ],
    assets: false,
  },
  {
    name: 'Astro, Cloudflare adapter',
    generator: 'create-astro',
    words: 'app --template=minimal --install --no-git --yes --no-ai',
    byHand: astro(),
    afterwards: ['npx astro add cloudflare --yes'],
    files: {
      'public/robots.txt': ROBOTS,
      'src/pages/api/time.ts':
        'export const prerender = false;\nexport const GET = () => Response.json({ now: Date.now() });\n',
      'src/pages/hello/[name].astro':
        '---\nexport const prerender = false;\n---\n<html lang="en"><body><h1>Hello {Astro.params.name}</h1></body></html>\n',
    },
    manager: 'npm',
    checks: [
      { path: '/', text: /<html lang="en"/ },
      { path: '/robots.txt', text: /^User-agent/ },
      { path: '/hello/Ada', text: /<h1>Hello Ada<\/h1>/ },
      { path: '/api/time', text: /"now":\d+/, byScript: true },
      { path: '/nowhere', status: 404, text: /./ },
    ],
    assets: false,
  },
  {
    name: 'Astro, without a configuration',
    generator: 'create-astro',
    words: 'app --template=minimal --install --no-git --yes --no-ai',
    byHand: astro(),
    files: {
      'astro.config.mjs':
        "import { defineConfig } from 'astro/config';\n\nexport default defineConfig({ output: 'server' });\n",
      'src/pages/hello/[name].astro':
        '<html lang="en"><body><h1>Hello {Astro.params.name}</h1></body></html>\n',
    },
    manager: 'npm',
    checks: [
      { path: '/', text: /<html lang="en"/ },
      { path: '/hello/Ada', text: /<h1>Hello Ada<\/h1>/ },
    ],
    assets: false,
  },
  {
    name: 'SvelteKit, without a configuration',
    generator: 'sv',
    words: 'create app --template=demo --types=ts --install=npm --no-add-ons',
    manager: 'npm',
    checks: SVELTE_CHECKS,
    assets: true,
  },
  {
    name: 'SvelteKit, Cloudflare adapter',
    generator: 'sv',
    words:
      'create app --template=demo --types=ts --install=npm --add sveltekit-adapter=adapter:cloudflare+cfTarget:workers',
    afterwards: ['npm run gen'],
    manager: 'npm',
    checks: SVELTE_CHECKS,
    assets: true,
  },
  {
    name: 'SvelteKit, static adapter',
    generator: 'sv',
    words: 'create app --template=minimal --types=ts --no-install --add sveltekit-adapter=adapter:static',
    files: { 'src/routes/+layout.ts': 'export const prerender = true;\n' },
    manager: 'bun',
    checks: [{ path: '/', text: /Welcome to SvelteKit/ }],
    assets: true,
  },
  {
    name: 'TanStack Start',
    generator: '@tanstack/cli',
    words: 'create app --deployment=cloudflare --framework=react --no-install --no-git --yes',
    manager: 'pnpm',
    checks: TANSTACK_CHECKS,
    assets: true,
  },
  {
    name: 'TanStack Start, without a configuration',
    generator: '@tanstack/cli',
    words: 'create app --framework=react --no-install --no-git --yes',
    manager: 'pnpm',
    checks: TANSTACK_CHECKS,
    assets: true,
  },
  {
    name: 'Nuxt',
    generator: 'create-nuxt',
    words: 'app --template=minimal --no-install --no-gitInit --packageManager=npm --modules=',
    byHand: {
      '.gitignore': `${GITIGNORE}.nuxt\n.output\n`,
      'package.json': json({
        name: 'app',
        type: 'module',
        scripts: { build: 'nuxt build', dev: 'nuxt dev', postinstall: 'nuxt prepare' },
        dependencies: { nuxt: '^4', vue: '^3', 'vue-router': '^5' },
      }),
      'app/app.vue': '<template>\n  <h1>Hello {{ $route.query.name }}</h1>\n</template>\n',
    },
    files: {
      'nuxt.config.ts': `export default defineNuxtConfig({
  compatibilityDate: '2026-11-01',
  nitro: { preset: 'cloudflare_module', cloudflare: { deployConfig: true, nodeCompat: true } },
});
`,
      'server/api/time.ts': 'export default defineEventHandler(() => ({ now: Date.now() }));\n',
    },
    manager: 'npm',
    checks: [
      { path: '/?name=Ada', text: /<h1>Hello Ada<\/h1>/ },
      { path: '/api/time', text: /"now":\s*\d+/, byScript: true },
    ],
    assets: true,
  },
  {
    name: 'Next.js, static export',
    ...NEXT,
    files: {
      'next.config.ts':
        "import type { NextConfig } from 'next';\n\nconst nextConfig: NextConfig = { output: 'export' };\n\nexport default nextConfig;\n",
    },
    manager: 'npm',
    checks: [
      { path: '/', text: /<html/ },
      { path: '/nowhere', status: 404, text: /could not be found/ },
    ],
    assets: true,
  },
  {
    name: 'Worker with assets alone',
    generator: 'create-cloudflare',
    words: `app --type=hello-world-assets-only ${C3}`,
    manager: 'npm',
    checks: [{ path: '/', text: /<html/ }],
    assets: false,
  },
  {
    name: 'Worker, Workflows',
    generator: 'create-cloudflare',
    words: `app --type=hello-world-workflows --lang=ts ${C3}`,
    manager: 'npm',
    checks: [{ path: '/', text: /"id"/, byScript: true }],
    assets: false,
  },
  {
    name: 'Worker, queues',
    generator: 'create-cloudflare',
    words: `app --type=queues --lang=ts ${C3}`,
    manager: 'npm',
    checks: [{ path: '/', text: /queue/i, byScript: true }],
    assets: false,
  },
  {
    name: 'Worker, cron triggers',
    generator: 'create-cloudflare',
    words: `app --type=scheduled --lang=ts ${C3}`,
    manager: 'npm',
    checks: [{ path: '/', text: /./, byScript: true }],
    assets: false,
  },
  {
    name: 'Worker in JavaScript, Durable Object',
    generator: 'create-cloudflare',
    words: `app --type=hello-world-durable-object --lang=js ${C3}`,
    manager: 'pnpm',
    checks: [{ path: '/', text: /Hello, World/i, byScript: true }],
    assets: false,
  },
  {
    name: 'Worker in Python',
    generator: 'create-cloudflare',
    words: `app --type=hello-world --lang=python ${C3}`,
    manager: 'none',
    checks: [],
    assets: false,
    refused: /Workers in Python are not supported: write it in JavaScript or TypeScript/,
  },
  {
    name: "Vue, Cloudflare's plugin",
    generator: 'create-cloudflare',
    words: `app --framework=vue --platform=workers ${C3}`,
    manager: 'npm',
    checks: [
      { path: '/', text: /<div id="app">/ },
      { path: '/api/', text: /"Cloudflare"/, byScript: true },
    ],
    assets: true,
  },
  {
    name: 'Vite + React, Cloudflare Pages',
    generator: 'create-cloudflare',
    words: `app --framework=react --variant=react-ts --platform=pages ${C3}`,
    manager: 'npm',
    checks: [
      { path: '/', text: /<div id="root">/ },
      { path: '/some/route', text: /<div id="root">/ },
    ],
    assets: true,
  },
  {
    name: 'Vite + Svelte',
    generator: 'create-vite',
    words: 'app --template=svelte-ts --no-interactive',
    manager: 'pnpm',
    checks: [{ path: '/', text: /<div id="app">/ }],
    assets: true,
  },
  {
    name: 'Vite + Preact',
    generator: 'create-vite',
    words: 'app --template=preact-ts --no-interactive',
    manager: 'bun',
    checks: [{ path: '/', text: /<div id="app">/ }],
    assets: true,
  },
  {
    name: 'Vite + Solid',
    generator: 'create-vite',
    words: 'app --template=solid-ts --no-interactive',
    manager: 'npm',
    checks: [{ path: '/', text: /<div id="root">/ }],
    assets: true,
  },
  {
    name: 'Angular',
    generator: '@angular/cli',
    words: 'new app --defaults --skip-git --skip-install --ai-config=none',
    manager: 'npm',
    checks: [
      { path: '/', text: /<app-root>/ },
      { path: '/some/route', text: /<app-root>/ },
    ],
    assets: true,
  },
  {
    name: 'Angular, rendered by a Worker',
    // The same as create-cloudflare's template, which needs a release of @angular/create that registries may lack.
    generator: '@angular/cli',
    words: 'new app --ssr --defaults --skip-git --skip-install --ai-config=none',
    afterwards: [
      // Angular's packages need each other's exact release, and the registry may lack the newest of some.
      `sed -Ei '/@angular/s/"\\^([0-9]+\\.[0-9]+)\\.[0-9]+"/"\\1.0"/' package.json`,
      'npm pkg delete dependencies.express devDependencies.@types/express',
      'npm pkg set devDependencies.xhr2=^0.2.1 devDependencies.wrangler=^4 "scripts.deploy=npm run build && wrangler deploy"',
      `node -e "const fs = require('fs'), file = 'angular.json', all = JSON.parse(fs.readFileSync(file, 'utf8')), o = all.projects.app.architect.build.options; o.outputPath = 'dist'; o.outputMode = 'server'; o.ssr.platform = 'neutral'; fs.writeFileSync(file, JSON.stringify(all, null, 2))"`,
      'sed -i "s/RenderMode.Prerender/RenderMode.Server/" src/app/app.routes.server.ts',
      `sed -i "1i import { provideHttpClient, withFetch } from '@angular/common/http';" src/app/app.config.ts`,
      'sed -i "s/providers: \\[/providers: [provideHttpClient(withFetch()), /" src/app/app.config.ts',
    ],
    files: {
      'wrangler.jsonc': json({
        name: 'app',
        main: './dist/server/server.mjs',
        compatibility_date: '2026-11-01',
        assets: { binding: 'ASSETS', directory: './dist/browser' },
        observability: { enabled: true },
      }),
      'src/server.ts': `import { AngularAppEngine, createRequestHandler } from '@angular/ssr';

const angularApp = new AngularAppEngine({ allowedHosts: ['localhost', '*.localhost'] });

export const reqHandler = createRequestHandler(async (req) => {
  const res = await angularApp.handle(req);
  return res ?? new Response('Page not found.', { status: 404 });
});

export default { fetch: reqHandler };
`,
    },
    manager: 'npm',
    checks: [{ path: '/', text: /ng-server-context="ssr"[\s\S]*Hello, app/ }],
    assets: true,
  },
  {
    name: 'Qwik, Cloudflare Pages',
    generator: 'create-qwik',
    words: 'empty app',
    afterwards: ['npm install --no-audit --no-fund', 'npx qwik add cloudflare-pages --skipConfirmation=true'],
    manager: 'npm',
    checks: [{ path: '/', text: /<html/ }],
    assets: false,
  },
  {
    name: 'Docusaurus',
    generator: 'create-docusaurus',
    words: 'app classic --typescript --skip-install --package-manager=npm',
    manager: 'pnpm',
    checks: [
      { path: '/', text: /Docusaurus/ },
      { path: '/docs/intro', text: /Tutorial/ },
      { path: '/nowhere', status: 404, text: /Page Not Found/ },
    ],
    assets: false,
  },
  {
    name: 'Next.js, without a configuration',
    ...NEXT,
    files: NEXT_PAGES,
    manager: 'npm',
    checks: NEXT_CHECKS,
    assets: true,
  },
  {
    name: "Next.js, OpenNext's Cloudflare adapter",
    ...NEXT,
    afterwards: [
      'npm pkg set devDependencies.wrangler=^4 dependencies.@opennextjs/cloudflare=^1 "scripts.deploy=opennextjs-cloudflare build && opennextjs-cloudflare deploy"',
    ],
    files: {
      'wrangler.jsonc': json({
        $schema: 'node_modules/wrangler/config-schema.json',
        main: '.open-next/worker.js',
        name: 'app',
        compatibility_date: '2025-09-15',
        compatibility_flags: ['nodejs_compat', 'global_fetch_strictly_public'],
        assets: { directory: '.open-next/assets', binding: 'ASSETS' },
        observability: { enabled: true },
      }),
      'next.config.ts': `import { initOpenNextCloudflareForDev } from '@opennextjs/cloudflare';
import type { NextConfig } from 'next';

const nextConfig: NextConfig = {};

export default nextConfig;

initOpenNextCloudflareForDev();
`,
      'open-next.config.ts':
        "import { defineCloudflareConfig } from '@opennextjs/cloudflare';\n\nexport default defineCloudflareConfig();\n",
      ...NEXT_PAGES,
    },
    manager: 'pnpm',
    checks: NEXT_CHECKS,
    assets: true,
  },
];

/** https://docs.astro.build/en/install-and-setup/#manual-setup */
function astro(): Record<string, string> {
  return {
    '.gitignore': GITIGNORE,
    'package.json': json({
      name: 'app',
      type: 'module',
      scripts: { dev: 'astro dev', build: 'astro build', preview: 'astro preview' },
      dependencies: { astro: '^7' },
    }),
    'astro.config.mjs': "import { defineConfig } from 'astro/config';\n\nexport default defineConfig({});\n",
    'tsconfig.json': json({ extends: 'astro/tsconfigs/base' }),
    'src/pages/index.astro': `---
---
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>Astro</title>
  </head>
  <body>
    <h1>Astro</h1>
  </body>
</html>
`,
  };
}
