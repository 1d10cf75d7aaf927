// Small Workers for `npm run differential`: each uses a feature that bundlers handle differently.
import type { Files } from '../../test/support/builds/projects.ts';

export interface Case {
  name: string;
  /** Wrangler configuration, besides `name`, `main` (`src/index.ts`) and `compatibility_date`. */
  config?: Record<string, unknown>;
  files: Files;
  /** The deployed environment of the configuration. */
  environment?: string;
  /** Set if both Wrangler and Cellar must refuse the Worker. */
  isRefused?: true;
}

/** Returns a module whose `fetch` responds with the value of an expression, as JSON. */
const answer = (expression: string, head = '') =>
  `${head}\nexport default { async fetch(request, env, ctx) { return Response.json(${expression}); } };\n`;
const index = (expression: string, head = '', more: Files = {}): Files => ({
  'src/index.ts': answer(expression, head),
  ...more,
});
const pkg = (name: string, manifest: object, files: Record<string, string>): Files =>
  Object.fromEntries(
    Object.entries({ 'package.json': JSON.stringify({ name, version: '1.0.0', ...manifest }), ...files }).map(
      ([path, text]) => [`node_modules/${name}/${path}`, text],
    ),
  );

/** `(module (func (export "add") (param i32 i32) (result i32) local.get 0 local.get 1 i32.add))`, as ASCII characters. */
const WASM =
  '\0asm\x01\0\0\0\x01\x07\x01\x60\x02\x7f\x7f\x01\x7f\x03\x02\x01\0\x07\x07\x01\x03add\0\0\x0a\x09\x01\x07\0\x20\0\x20\x01\x6a\x0b';

const JSX = `const h = (tag, props, ...children) => ({ tag, props, children }); const Fragment = 'fragment';`;

export const cases: Case[] = [
  {
    name: 'TypeScript that is more than types',
    files: index(
      '[Colour.Red, Colour[1], new Point(1, 2), Shapes.area]',
      `
enum Colour { Red, Green }
namespace Shapes { export const area = 6; }
class Point { constructor(readonly x: number, private y: number) {} }`,
    ),
  },
  {
    name: 'class fields as an old target has them',
    files: index(
      '[Object.keys(new B()), calls]',
      `
const calls: string[] = [];
class A { set x(value: string) { calls.push(value); } }
class B extends A { x = 'set'; y; }`,
      {
        'tsconfig.json': '{ "compilerOptions": { "target": "ES2021" } }',
      },
    ),
  },
  {
    name: 'class fields as they are defined',
    files: index(
      '[Object.keys(new B()), calls]',
      `
const calls: string[] = [];
class A { set x(value: string) { calls.push(value); } }
class B extends A { x = 'set'; y; }`,
    ),
  },
  {
    name: 'decorators of TypeScript',
    files: index(
      '[new A().word, seen]',
      `
const seen: string[] = [];
const note = (target: object, key: string) => { seen.push(key); };
class A { @note word = 'a word'; }`,
      {
        'tsconfig.json': '{ "compilerOptions": { "experimentalDecorators": true } }',
      },
    ),
  },
  {
    name: 'decorators of JavaScript',
    files: index(
      '[new A().word()]',
      `
const twice = (method: Function) => function (this: unknown) { return method.call(this) + method.call(this); };
class A { @twice word() { return 'w'; } }`,
    ),
  },
  {
    name: 'JSX by the configuration',
    config: { main: 'src/index.jsx', jsx_factory: 'h', jsx_fragment: 'Fragment' },
    files: { 'src/index.jsx': answer('<><p id="a">b {1 + 1}</p></>', JSX) },
  },
  {
    name: 'JSX by tsconfig.json',
    config: { main: 'src/index.tsx' },
    files: {
      'src/index.tsx': answer('<p id="a">b</p>', JSX),
      'tsconfig.json': '{ "compilerOptions": { "jsx": "react", "jsxFactory": "h" } }',
    },
  },
  {
    name: 'JSX of a package',
    config: { main: 'src/index.tsx' },
    files: {
      'src/index.tsx': answer('<><p id="a">b</p></>'),
      'tsconfig.json': '{ "compilerOptions": { "jsx": "react-jsx", "jsxImportSource": "tiny" } }',
      ...pkg(
        'tiny',
        { exports: { './jsx-runtime': './runtime.js' } },
        {
          'runtime.js':
            "export const jsx = (tag, props) => ({ tag, props }); export const jsxs = jsx; export const Fragment = '';",
        },
      ),
    },
  },
  {
    name: 'JSX in a file .js',
    config: { main: 'src/index.js' },
    files: {
      'src/index.js': answer('<b>x</b>', `/** @jsx h */ ${JSX}`),
    },
  },
  {
    name: 'CommonJS packages, with and without __esModule',
    files: index(
      '[plain, plain.word, named, made, star.default, old.word]',
      `
import plain from 'plain'; import { named } from 'plain'; import made, * as star from 'made'; const old = require('plain');`,
      {
        ...pkg(
          'plain',
          { main: 'lib.js' },
          { 'lib.js': "exports.word = 'a'; exports.named = 'n'; exports.file = typeof __filename;" },
        ),
        ...pkg(
          'made',
          { main: 'lib' },
          {
            'lib.js':
              "Object.defineProperty(exports, '__esModule', { value: true }); exports.default = 'd'; exports.other = 'o';",
          },
        ),
      },
    ),
  },
  {
    name: 'a Worker in CommonJS',
    config: { main: 'src/index.js' },
    files: {
      'src/index.js':
        "const { word } = require('./word'); addEventListener('fetch', (event) => event.respondWith(Response.json(word)));",
      'src/word.js': "exports.word = 'a word'",
    },
  },
  {
    name: 'JSON, by default and by name',
    files: index(
      '[all, version, typed]',
      `
import all, { version } from './data.json'; import typed from './data.json' with { type: 'json' };`,
      {
        'src/data.json': '{ "version": "1.2", "list": [1, null, "ä"] }',
      },
    ),
  },
  {
    name: 'files of text',
    files: index(
      '[a, b, c, typeof a]',
      "import a from './a.txt'; import b from './b.html'; import c from './c.sql';",
      {
        'src/a.txt': 'ä\n',
        'src/b.html': '<p>{1}</p>',
        'src/c.sql': 'SELECT `x`;\r\n',
      },
    ),
  },
  {
    name: 'files of data',
    files: index('[data instanceof ArrayBuffer, [...new Uint8Array(data)]]', "import data from './a.bin';", {
      'src/a.bin': '\0\x01\x7f',
    }),
  },
  {
    name: 'WebAssembly',
    files: index(
      '[add instanceof WebAssembly.Module, new WebAssembly.Instance(add).exports.add(2, 3), again === add]',
      `
import add from './add.wasm'; import again from './add.wasm?module';`,
      { 'src/add.wasm': WASM },
    ),
  },
  {
    name: 'WebAssembly of a package',
    files: index('new WebAssembly.Instance(add).exports.add(2, 3)', "import add from 'adder/add.wasm';", {
      ...pkg('adder', {}, { 'add.wasm': WASM }),
    }),
  },
  {
    name: 'rules of the project',
    config: {
      rules: [
        { type: 'Text', globs: ['**/*.md', '**/*.csv'], fallthrough: true },
        { type: 'Data', globs: ['**/*.dat'] },
      ],
    },
    files: index(
      '[a, b, c.byteLength, d]',
      "import a from './a.md'; import b from '../b.csv'; import c from './c.dat'; import d from './d.txt';",
      {
        'src/a.md': '# a',
        'b.csv': 'a,b',
        'src/c.dat': 'four',
        'src/d.txt': 'text',
      },
    ),
  },
  {
    name: 'modules beside the bundle',
    config: {
      find_additional_modules: true,
      rules: [
        { type: 'ESModule', globs: ['words/*.js'] },
        { type: 'Text', globs: ['texts/**/*.txt'] },
      ],
    },
    files: index(
      "[(await import('./words/' + 'one' + '.js')).default, (await import(['.', 'texts', 'a', 'b.txt'].join('/'))).default, near]",
      "import near from './words/two.js';",
      {
        'src/words/one.js': "import two from './two.js'; export default 'one ' + two;",
        'src/words/two.js': "export default 'two';",
        'src/texts/a/b.txt': 'a text',
      },
    ),
  },
  {
    name: 'alias',
    config: { alias: { words: './src/own.ts', 'deep/path': 'other' } },
    files: index('[words, deep]', "import words from 'words'; import deep from 'deep/path';", {
      'src/own.ts': "export default 'own';",
      ...pkg('other', {}, { 'index.js': "export default 'other';" }),
    }),
  },
  {
    name: 'define',
    config: { define: { VERSION: '"1.0"', 'import.meta.env.MODE': '"live"', FLAG: 'true' } },
    files: index(
      "[VERSION, import.meta.env.MODE, FLAG ? 'on' : 'off', typeof MISSING]",
      'declare const VERSION: string, FLAG: boolean;',
    ),
  },
  {
    name: 'the environment of Node',
    files: index('[process.env.NODE_ENV, globalThis.process?.env?.NODE_ENV, typeof process]'),
  },
  {
    name: 'names of functions and classes',
    files: index(
      '[one.name, two().name, (() => {}).name, A.name, new A().constructor.name]',
      `
import { one, two } from './names.ts'; class A {}`,
      {
        'src/names.ts':
          'function name() {} export { name as one }; export const two = () => { function name() {} return name; };',
      },
    ),
  },
  {
    name: 'minified, names not kept',
    config: { minify: true, keep_names: false },
    files: index(
      '[typeof longName(1), longName(2).value, `a\\nb`]',
      'function longName(value: number) { return { value }; }',
    ),
  },
  {
    name: 'addEventListener with variables',
    config: { main: 'src/index.js', vars: { WORD: 'a word', SHAPE: { deep: [1] } } },
    files: {
      'src/index.js':
        "import { shout } from './shout'; addEventListener('fetch', (event) => { event.respondWith(answer(event.request)); });\nasync function answer(request) { return new Response(JSON.stringify([shout(WORD), SHAPE.deep, new URL(request.url).pathname, typeof self.WORD])); }",
      'src/shout.js': 'export const shout = (word) => word.toUpperCase();',
    },
  },
  {
    name: 'paths of tsconfig.json',
    files: index('[one, two]', "import one from '@/one'; import two from 'lib';", {
      'tsconfig.json':
        '{ "compilerOptions": { "baseUrl": ".", "paths": { "@/*": ["src/parts/*"], "lib": ["./src/lib.ts"] } } } // a comment',
      'src/parts/one.ts': "export default 'one';",
      'src/lib.ts': "export default 'two';",
    }),
  },
  {
    name: 'conditions of packages',
    files: index(
      '[a, b, c, d, e]',
      "import a from 'a'; import b from 'b'; import c from 'c'; import d from 'd'; import e from 'e/sub/x';",
      {
        ...pkg(
          'a',
          { exports: { node: './node.js', workerd: './workerd.js', default: './default.js' } },
          ways('node', 'workerd', 'default'),
        ),
        ...pkg(
          'b',
          { exports: { browser: './browser.js', worker: './worker.js', import: './import.js' } },
          ways('browser', 'worker', 'import'),
        ),
        ...pkg(
          'c',
          { exports: { development: './dev.js', production: './production.js', default: './default.js' } },
          ways('dev', 'production', 'default'),
        ),
        ...pkg(
          'd',
          { browser: './browser.js', module: './module.js', main: './main.js' },
          ways('browser', 'module', 'main'),
        ),
        ...pkg(
          'e',
          { exports: { './sub/*': { require: './require.cjs', default: './lib/*.js' } } },
          { 'lib/x.js': "export default 'x';" },
        ),
      },
    ),
  },
  {
    name: 'files that a package has for browsers',
    files: index('[word]', "import word from 'p';", {
      ...pkg(
        'p',
        { main: 'index.js', browser: { './node.js': './web.js', fs: false } },
        {
          'index.js':
            "import where from './node.js'; import fs from 'fs'; export default where + Object.keys(fs).length;",
          ...ways('node', 'web'),
        },
      ),
    }),
  },
  {
    name: 'imports of the project itself',
    config: { main: 'src/index.ts' },
    files: index('[one, own]', "import one from '#one'; import own from 'project/own';", {
      'package.json':
        '{ "name": "project", "imports": { "#one": "./src/one.js" }, "exports": { "./own": "./src/own.js" } }',
      'src/one.js': "export default 'one';",
      'src/own.js': "export default 'own';",
    }),
  },
  {
    name: 'a linked package of TypeScript',
    files: index('word', "import { word } from '@all/words';", {
      'packages/words/package.json': '{ "name": "@all/words", "main": "index.ts" }',
      'packages/words/index.ts': "export const word: string = 'of a package';",
      'node_modules/@all/words': { link: '../../packages/words' },
    }),
  },
  {
    name: 'what may be left out',
    files: index('[used, globalThis.seen]', "import { used } from 'pure'; import 'impure';", {
      ...pkg(
        'pure',
        { sideEffects: false, module: 'index.js' },
        {
          'index.js': "export { used } from './used.js'; export { other } from './other.js';",
          'used.js': "export const used = 'used';",
          'other.js': "globalThis.seen = (globalThis.seen ?? '') + 'other'; export const other = 1;",
        },
      ),
      ...pkg('impure', {}, { 'index.js': "globalThis.seen = (globalThis.seen ?? '') + 'impure';" }),
    }),
  },
  {
    name: 'await at the top, and a module that is imported late',
    files: index(
      "[ready, (await import('./late.ts')).default, order]",
      `
import { order } from './order.ts'; const ready = await Promise.resolve('ready'); order.push('entry');`,
      {
        'src/late.ts': "import { order } from './order.ts'; order.push('late'); export default 'late';",
        'src/order.ts': 'export const order: string[] = [];',
      },
    ),
  },
  {
    name: 'named entrypoints, and a class as the default export',
    config: { vars: { WORD: 'a word' } },
    files: {
      'src/index.ts': `import { WorkerEntrypoint, env } from 'cloudflare:workers';
export class Admin extends WorkerEntrypoint { word() { return 'of Admin'; } }
export default class extends WorkerEntrypoint<{ WORD: string }> {
  fetch() { return Response.json([env.WORD, this.env.WORD, typeof Admin.prototype.word]); }
}`,
    },
  },
  {
    name: 'an environment of the configuration',
    config: {
      vars: { WORD: 'top', ONLY: 'top' },
      env: { live: { vars: { WORD: 'live', LIST: [1, { a: null }] }, define: { WHERE: '"live"' } } },
    },
    environment: 'live',
    files: index('[env.WORD, env.ONLY, env.LIST, WHERE]', 'declare const WHERE: string;'),
  },
  {
    name: 'variables in process.env',
    config: { compatibility_flags: ['nodejs_compat'], vars: { WORD: 'a word', LIST: [1] } },
    files: index(
      '[process.env.WORD, process.env.LIST, process.env.NODE_ENV, Buffer.from("a").toString("base64")]',
    ),
  },
  {
    name: 'modules of Node without a flag',
    config: { compatibility_date: '2024-01-01' },
    files: index("await import('node:os').then(() => 'there', (error) => 'not there')"),
  },
  {
    name: 'storage of async calls alone',
    config: { compatibility_date: '2024-01-01', compatibility_flags: ['nodejs_als'] },
    files: index(
      'new AsyncLocalStorage().run(7, () => storage.run(8, () => storage.getStore()))',
      `
import { AsyncLocalStorage } from 'node:async_hooks'; const storage = new AsyncLocalStorage();`,
    ),
  },
  {
    name: 'new syntax',
    files: index(
      '[left, /\\p{L}/v.test("ä"), "ä😀", 1_000n.toString(), o?.a ?? "none", #x in new P() || 1]'.replace(
        ', #x in new P() || 1',
        ', P.has(new P())',
      ),
      `
const left: string[] = []; { using end = { [Symbol.dispose]() { left.push('left'); } }; left.push('in'); }
const o: { a?: string } = {}; class P { #x = 1; static { left.push('static'); } static has(p: P) { return #x in p; } }`,
    ),
  },
  {
    name: 'not bundled',
    config: { main: 'src/index.js', no_bundle: true, rules: [{ type: 'ESModule', globs: ['**/*.js'] }] },
    files: {
      'src/index.js': answer('[word, import.meta.url === undefined]', "import { word } from './word.js';"),
      'src/word.js': "export const word = 'a word';",
    },
  },
  {
    name: 'a TOML configuration',
    files: {
      'wrangler.toml':
        'name = "x"\nmain = "./lib/entry.mjs"\ncompatibility_date = "2026-10-01"\n[vars]\nWORD = "a\\tword"\nNUMBER = 1.5\n[vars.DEEP]\nlist = [1, 2]\n',
      'lib/entry.mjs': answer('[env.WORD, env.NUMBER, env.DEEP, up]', "import up from '../up.mjs';"),
      'up.mjs': "export default 'up';",
    },
  },
  {
    name: 'an import that leads nowhere',
    isRefused: true,
    files: index('1', "import x from './missing'; export const y = x;"),
  },
  {
    name: 'a package that is not installed',
    isRefused: true,
    files: index('x', "import x from 'missing-package';"),
  },
  { name: 'a fault of syntax', isRefused: true, files: index('1 +') },
  {
    name: 'a name that a module does not export',
    isRefused: true,
    files: index('[typeof x]', "import { x } from './a.ts';", { 'src/a.ts': 'export const y = 1;' }),
  },
  { name: 'a main that is not there', isRefused: true, config: { main: 'src/other.ts' }, files: index('1') },
];

/** Returns files with these names. Each exports its name as the default. */
function ways(...names: string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [`${name}.js`, `export default '${name}';`]));
}
