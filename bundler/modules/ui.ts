// Builds the control UI's files: its page, and scripts and styles with content hashes in their names.
import { globSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BuildOptions, Metafile, Plugin } from 'esbuild';
import { docsPages } from './docs.ts';
import { build } from './esbuild.ts';

export interface UiFile {
  /** Such as `/assets/main-X7K2.js`. */
  path: string;
  contents: Uint8Array;
  /** Its `Content-Type`. */
  type: string;
  /** Whether its name changes with its contents, so that browsers may cache it for ever. */
  immutable: boolean;
}

export interface BundledUi {
  /** Includes `/index.html`, which the server sends for every path without a file. */
  files: UiFile[];
  /** Paths of the files that the first view of the home screen needs besides the page. */
  first: string[];
  /** esbuild's metafile of the build of `ui/main.tsx`. */
  metafile: Metafile;
}

const TYPES: Record<string, string> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};
const PLACE = '<!-- what bundler/modules/ui.ts has built -->';
const MAIN = 'ui/main.tsx';
const THEME = 'ui/theme-first.ts';
const STYLE = 'ui/style/index.css';
const DOCS_STYLE = 'ui/style/docs.css';
const root = fileURLToPath(new URL('../..', import.meta.url));

/** Parts that few screens need. All others are in one chunk. */
const RARE_PARTS = ['chart', 'diff', 'grid', 'invites', 'json-dialog', 'qr-code', 'tables'];

/**
 * Puts code that screens share into one chunk, which the first view loads. esbuild makes a chunk for each set of entry
 * points with a common file. So every entry point here imports all shared files. Fewer chunks load sooner: over
 * HTTP/1.1, a browser loads at most six files of a server at a time.
 */
const oneSharedChunk: Plugin = {
  name: 'one shared chunk',
  setup({ onLoad, onResolve }) {
    const parts = globSync('**/*.{ts,tsx}', { cwd: join(root, 'ui/parts') }).filter(
      (path) => !RARE_PARTS.includes(basename(path).replace(/\.tsx?$/, '')),
    );
    const contract = '../handlers/contract/apps/slug.ts';
    const others = ['live.ts', 'models/pages.ts', 'layout/head.tsx', 'main.tsx', contract];
    const shared = [...parts.map((name) => `parts/${name}`), ...others];
    onResolve({ filter: /^shared parts$/ }, () => ({ path: 'parts', namespace: 'shared' }));
    onLoad({ filter: /^parts$/, namespace: 'shared' }, () => ({
      contents: shared.map((path) => `import './${path}';`).join('\n'),
      resolveDir: join(root, 'ui'),
    }));
    onLoad({ filter: /\/ui\/(main|screens\/.+|editor\/editor)\.tsx$/ }, async ({ path }) => ({
      contents: `${await readFile(path, 'utf8')}\nimport 'shared parts';`,
      loader: 'tsx',
    }));
  },
};

const common = {
  absWorkingDir: root,
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  outdir: 'assets',
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  target: ['es2023', 'chrome120', 'firefox121', 'safari17.4'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  logLevel: 'silent',
  define: { 'process.env.NODE_ENV': '"production"' },
  // A user's own tool settings must not change our bundle.
  tsconfigRaw: { compilerOptions: { jsx: 'react-jsx', jsxImportSource: 'preact' } },
} satisfies BuildOptions;

/** Bundles `ui/`. esbuild does the work in its own process, in some tenths of a second. */
export async function bundleUi(): Promise<BundledUi> {
  const [main, before] = await Promise.all([
    build({ ...common, entryPoints: [MAIN], format: 'esm', splitting: true, plugins: [oneSharedChunk] }),
    build({ ...common, entryPoints: [THEME, STYLE, DOCS_STYLE], format: 'iife' }),
  ]);
  const { outputs } = main.metafile;
  const theme = outputOf(before.metafile.outputs, THEME);
  const style = outputOf(before.metafile.outputs, STYLE);
  // The entry point itself only imports the shared chunk.
  const shared = Object.keys(outputs).find((path) => MAIN in outputs[path]!.inputs)!;
  const scripts = withImports(outputs, shared);
  const tags = [
    `<script src="/${theme}"></script>`,
    `<link rel="stylesheet" href="/${style}">`,
    `<script type="module" src="/${shared}"></script>`,
    ...scripts.filter((path) => path !== shared).map((path) => `<link rel="modulepreload" href="/${path}">`),
  ];
  const docsTags = [
    tags[0],
    `<link rel="stylesheet" href="/${outputOf(before.metafile.outputs, DOCS_STYLE)}">`,
  ];
  const docs = docsPages(docsTags.join('\n')).map(
    ({ path, html }): UiFile => ({ path, contents: Buffer.from(html), type: TYPES.html!, immutable: false }),
  );
  const page = readFileSync(join(root, 'ui/index.html'), 'utf8').replace(PLACE, tags.join('\n'));
  const built = [...main.outputFiles, ...before.outputFiles].map(({ path, contents }) =>
    file(path.slice(root.length - 1), contents, true),
  );
  return {
    files: [
      file('/index.html', Buffer.from(page), false),
      file('/favicon.svg', readFileSync(join(root, 'ui/favicon.svg')), false),
      ...built,
      ...docs,
    ],
    first: [theme, style, ...scripts].map((path) => `/${path}`),
    metafile: main.metafile,
  };
}

function outputOf(outputs: Metafile['outputs'], entryPoint: string): string {
  return Object.keys(outputs).find((path) => outputs[path]!.entryPoint === entryPoint)!;
}

function file(path: string, contents: Uint8Array, immutable: boolean): UiFile {
  return { path, contents, type: TYPES[path.slice(path.lastIndexOf('.') + 1)]!, immutable };
}

/** Returns the path of an output and of all outputs that it imports statically, at any depth. */
export function withImports(outputs: Metafile['outputs'], path: string, seen: string[] = []): string[] {
  if (seen.includes(path)) return seen;
  seen.push(path);
  for (const { path: next, kind } of outputs[path]!.imports)
    if (kind === 'import-statement') withImports(outputs, next, seen);
  return seen;
}
