// The projects that `npm run frameworks` deploys: how each is generated, and what its site must answer.

/** A request to the deployed app and what its answer must be. */
export interface Check {
  path: string;
  status?: number;
  /** The body matches. */
  text: RegExp;
  /** A script asks for it, not a browser that goes there. */
  byScript?: true;
}

export interface FrameworkProject {
  name: string;
  /** The package that generates it, in its newest version. */
  generator: string;
  /** The words after the generator's name; it makes the project in the folder `app`. */
  words: string;
  /** The project as its framework's documentation sets one up by hand, for a generator whose templates are on GitHub. */
  byHand?: Record<string, string>;
  /** Commands of its author, run when its packages are installed. */
  afterwards?: string[];
  /** Files that its author adds or changes then. */
  files?: Record<string, string>;
  /** Whose lock file is committed. */
  manager: 'npm' | 'pnpm' | 'yarn' | 'bun';
  checks: Check[];
  /** Also fetch every script and style sheet that the page at `/` names. */
  assets: boolean;
}

const GITIGNORE = 'node_modules\ndist\n.wrangler\n.astro\n.react-router\nbuild\n';
const ROBOTS = 'User-agent: *\nAllow: /\n';
const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;

export const projects: FrameworkProject[] = [
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
    name: 'SvelteKit, Cloudflare adapter',
    generator: 'sv',
    words:
      'create app --template=demo --types=ts --install=npm --add sveltekit-adapter=adapter:cloudflare+cfTarget:workers',
    afterwards: ['npm run gen'],
    manager: 'npm',
    checks: [
      { path: '/', text: /<h1/ },
      { path: '/about', text: /About/ },
      { path: '/sverdle', text: /Sverdle/i },
      { path: '/nowhere', status: 404, text: /Not Found/i },
    ],
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
    checks: [
      { path: '/', text: /<html/ },
      { path: '/about', text: /About/ },
      { path: '/nowhere', status: 404, text: /Not Found/i },
    ],
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
    generator: 'create-next-app',
    words:
      'app --ts --app --yes --use-npm --disable-git --empty --no-eslint --no-tailwind --no-agents-md --no-agent-feedback --skip-install',
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
