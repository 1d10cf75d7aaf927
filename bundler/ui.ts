// The control UI as files to serve: its page, and scripts and styles whose names have a hash of what is in them.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BuildOptions, Metafile } from 'esbuild';
import { build } from './esbuild.ts';

/** A file of the control UI. */
export interface UiFile {
  /** Such as `/assets/main-X7K2.js`. */
  path: string;
  contents: Uint8Array;
  /** Its `Content-Type`. */
  type: string;
  /** Its name changes with what is in it, so that it may be kept for ever. */
  immutable: boolean;
}

/** The control UI, built. */
export interface BundledUi {
  /** `/index.html` among them: the answer to every address that is no file. */
  files: UiFile[];
  /** Paths of what the first view needs besides the page and the chunk of its screen. */
  first: string[];
  /** Of the scripts and styles, paths as esbuild writes them. */
  metafile: Metafile;
}

const TYPES: Record<string, string> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};
const PLACE = '<!-- what bundler/ui.ts has built -->';
const root = fileURLToPath(new URL('..', import.meta.url));

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
  // What a user's own tools set is none of ours.
  tsconfigRaw: { compilerOptions: { jsx: 'react-jsx', jsxImportSource: 'preact' } },
} satisfies BuildOptions;

/** Bundles `ui/`. Takes some tenths of a second, in a process of esbuild. */
export async function bundleUi(): Promise<BundledUi> {
  const [main, theme] = await Promise.all([
    build({ ...common, entryPoints: ['ui/main.tsx'], format: 'esm', splitting: true }),
    build({ ...common, entryPoints: ['ui/theme-first.ts'], format: 'iife' }),
  ]);
  const outputs = main.metafile.outputs;
  const entry = Object.keys(outputs).find((path) => outputs[path]!.entryPoint === 'ui/main.tsx')!;
  const style = outputs[entry]!.cssBundle!;
  const before = Object.keys(theme.metafile.outputs)[0]!;
  const scripts = withImports(outputs, entry);
  const tags = [
    `<script src="/${before}"></script>`,
    `<link rel="stylesheet" href="/${style}">`,
    ...scripts.slice(1).map((path) => `<link rel="modulepreload" href="/${path}">`),
    `<script type="module" src="/${entry}"></script>`,
  ];
  const page = readFileSync(join(root, 'ui/index.html'), 'utf8').replace(PLACE, tags.join('\n'));
  const built = [...main.outputFiles, ...theme.outputFiles].map(({ path, contents }) =>
    file(path.slice(root.length - 1), contents, true),
  );
  return {
    files: [
      file('/index.html', Buffer.from(page), false),
      file('/favicon.svg', readFileSync(join(root, 'ui/favicon.svg')), false),
      ...built,
    ],
    first: [before, style, ...scripts].map((path) => `/${path}`),
    metafile: main.metafile,
  };
}

function file(path: string, contents: Uint8Array, immutable: boolean): UiFile {
  return { path, contents, type: TYPES[path.slice(path.lastIndexOf('.') + 1)]!, immutable };
}

/** An output and all that it imports at once, not what it imports when it is needed. */
export function withImports(outputs: Metafile['outputs'], path: string, seen: string[] = []): string[] {
  if (seen.includes(path)) return seen;
  seen.push(path);
  for (const { path: next, kind } of outputs[path]!.imports)
    if (kind === 'import-statement') withImports(outputs, next, seen);
  return seen;
}
