import assert from 'node:assert/strict';
import { linkSync, mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { after, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { bundleProject } from '../../bundler/bundle.ts';
import { findFunctions } from '../../bundler/project/plan.ts';
import { withoutMapsOutside } from '../../bundler/project/source-maps.ts';
import { NO_SETTINGS } from '../../runtime/builds/release/build-input.ts';
import type { Files } from '../support/builds/projects.ts';
import { makeWorktrees, wranglerProject } from '../support/bundler/worktree.ts';

const worktrees = makeWorktrees();
after(worktrees.remove);

/** Runs a bundled Worker's `fetch` in Node. The bundle may import only Node's own modules. */
async function answer(source: string): Promise<string> {
  const path = join(worktrees.write({}), 'index.mjs');
  writeFileSync(path, source);
  const { default: worker } = await import(pathToFileURL(path).href);
  return (await worker.fetch(new Request('http://x/'))).text();
}

test('TypeScript, JSX, text and SQL are bundled into one module', async () => {
  const { bundle, read } = await worktrees.bundle({
    'index.ts': `
      import sql from './query.sql'; import page from './page.html'; import note from './note.txt'; import { view } from './view.tsx';
      export default { fetch(): Response { return new Response([sql, page, note, view, process.env.NODE_ENV].join('|')) } }`,
    'view.tsx': 'const React = { createElement: (tag: string) => tag }; export const view = <em />;',
    'query.sql': 'SELECT 1',
    'page.html': '<p>',
    'note.txt': 'note',
  });
  assert.equal(bundle.worker!.modules.length, 1);
  assert.equal(await answer(read('modules/index.js')), 'SELECT 1|<p>|note|em|production');
});

test('WebAssembly and data become separate modules, once each', async () => {
  const { bundle, read } = await worktrees.bundle({
    'index.js': `
      import one from './a.wasm'; import two from './a.wasm?module'; import data from './d.bin';
      export default { fetch: () => new Response(one + two + data) }`,
    'a.wasm': 'wasm bytes',
    'd.bin': 'data bytes',
  });
  const [entry, ...files] = bundle.worker!.modules;
  assert.deepEqual(files.map(({ type, path }) => [type, read(path)]).toSorted(), [
    ['data', 'data bytes'],
    ['wasm', 'wasm bytes'],
  ]);
  for (const { name } of files) assert.ok(read(entry!.path).includes(`"./${name}"`), name);
});

test('module rules match files in folders whose names begin with a dot', async () => {
  const store = 'node_modules/.pnpm/picture@1.0.0/node_modules/picture';
  const rules = [
    { type: 'Text', globs: ['**/*.md', '.output/**/*.part'] },
    { type: 'Data', globs: ['output/**/*.part'] },
  ];
  const { bundle, read } = await worktrees.bundle(
    wranglerProject(
      { main: '.output/server/index.mjs', rules },
      {
        '.output/server/index.mjs': `
          import wasm from 'picture/codec.wasm'; import data from './chunks/d.bin';
          import note from './a.md'; import part from './a.part';
          export default { fetch: () => new Response([wasm, data, note, part]) }`,
        '.output/server/chunks/d.bin': 'data bytes',
        '.output/server/a.md': '# Title',
        '.output/server/a.part': '# Part',
        [`${store}/package.json`]: '{"name": "picture", "version": "1.0.0"}',
        [`${store}/codec.wasm`]: 'wasm bytes',
        'node_modules/picture': { link: '.pnpm/picture@1.0.0/node_modules/picture' },
      },
    ),
  );
  assert.deepEqual(bundle.worker!.modules.map(({ type }) => type).toSorted(), ['data', 'esm', 'wasm']);
  assert.match(read('modules/index.js'), /# Title.*# Part/s);
});

test('module rules of the project precede the default ones', async () => {
  const { bundle, read } = await worktrees.bundle(
    wranglerProject(
      {
        rules: [
          { type: 'Text', globs: ['docs/*.md'] },
          { type: 'Data', globs: ['**/*.txt'] },
        ],
      },
      {
        'index.js':
          'import md from "./docs/a.md"; import t from "./t.txt"; export default { fetch: () => new Response(md + t) }',
        'docs/a.md': '# Title',
        't.txt': 'as data',
      },
    ),
  );
  assert.match(read('modules/index.js'), /# Title/);
  assert.deepEqual(
    bundle.worker!.modules.map(({ type }) => type),
    ['esm', 'data'],
  );
});

test('module rules match the text of an import too, in which a star stands for folders, as in Wrangler', async () => {
  const rules = [
    { type: 'Text', globs: ['*/pages/**', '*.tpl?*'] },
    { type: 'Data', globs: ['*.raw'] },
  ];
  const { bundle, read } = await worktrees.bundle(
    wranglerProject(
      { main: 'src/worker/index.js', rules },
      {
        'src/worker/index.js': `
          import page from '../../pages/a.md'; import raw from './deep/b.raw'; import tpl from './c.tpl?raw';
          export default { fetch: () => new Response([page, raw, tpl]) }`,
        'pages/a.md': '# Title',
        'src/worker/deep/b.raw': 'raw bytes',
        'src/worker/c.tpl': 'template',
      },
    ),
  );
  assert.match(read('modules/index.js'), /# Title.*template/s);
  assert.deepEqual(
    bundle.worker!.modules.map(({ type }) => type),
    ['esm', 'data'],
  );
});

test("Node's modules are left to workerd under their node: names, required ones too", async () => {
  const { read } = await worktrees.bundle({
    'index.js': `
      import { join } from 'path'; import old from './old.cjs'; import { env } from 'cloudflare:workers';
      export default { fetch: () => new Response(join('a', 'b') + old + env) }`,
    'old.cjs': 'module.exports = typeof require("events").EventEmitter + require("node:util").inspect(1)',
  });
  const source = read('modules/index.js');
  for (const name of ['node:path', 'node:events', 'node:util', 'cloudflare:workers']) {
    assert.match(source, new RegExp(`from ?"${name}"`), name);
  }
  assert.equal(await answer(source.replace(/import \{ env \}.*\n/, 'const env = "!";\n')), 'a/bfunction1!');
});

test('without Node compatibility a package replaces the Node module of its name', async () => {
  const files = {
    'index.js': 'import { name } from "events"; export default { fetch: () => new Response(name) }',
    'node_modules/events/package.json': '{"name": "events", "main": "index.js"}',
    'node_modules/events/index.js': 'exports.name = "the package"',
  };
  const old = await worktrees.bundle(wranglerProject({ compatibility_date: '2024-01-01' }, files));
  assert.equal(await answer(old.read('modules/index.js')), 'the package');
  const flagged = { compatibility_date: '2024-09-23', compatibility_flags: ['nodejs_compat'] };
  const compatible = await worktrees.bundle(wranglerProject(flagged, files));
  assert.match(compatible.read('modules/index.js'), /from ?"node:events"/);
});

test('a Node module that an old compatibility date does not offer is mentioned', async () => {
  const files = {
    'index.js': 'import fs from "fs"; export default { fetch: () => new Response(String(fs)) }',
  };
  const { notes } = await worktrees.bundle(wranglerProject({ compatibility_date: '2024-01-01' }, files));
  assert.ok(
    notes.some((note) => /^warning: node:fs: not available at compatibility date 2024-01-01/.test(note)),
    String(notes),
  );
  const als = {
    'index.js':
      'import { AsyncLocalStorage } from "node:async_hooks"; export default { fetch: () => new Response(AsyncLocalStorage.name) }',
  };
  const config = { compatibility_date: '2024-01-01', compatibility_flags: ['nodejs_als'] };
  assert.doesNotMatch(String((await worktrees.bundle(wranglerProject(config, als))).notes), /not there/);
});

test('packages are resolved by their conditions for workerd', async () => {
  const { read } = await worktrees.bundle({
    'index.js': 'import { where } from "multi"; export default { fetch: () => new Response(where) }',
    'node_modules/multi/package.json':
      '{"name": "multi", "exports": {"workerd": "./w.js", "node": "./n.js", "default": "./d.js"}}',
    'node_modules/multi/w.js': 'export const where = "workerd"',
    'node_modules/multi/n.js': 'export const where = "node"',
    'node_modules/multi/d.js': 'export const where = "default"',
  });
  assert.equal(await answer(read('modules/index.js')), 'workerd');
});

test("the project's defines and aliases are applied", async () => {
  const { read } = await worktrees.bundle(
    wranglerProject(
      {
        define: { GREETING: '"hello"', 'process.env.NODE_ENV': '"staging"' },
        alias: { there: './here.js' },
        minify: true,
      },
      {
        'index.js':
          'import { place } from "there";\nexport default { fetch: () => new Response(GREETING + place + process.env.NODE_ENV) }',
        'here.js': 'export const place = " here"',
      },
    ),
  );
  assert.equal(await answer(read('modules/index.js')), 'hello herestaging');
});

test("the deploy script's defines, aliases and settings of JSX are applied, with and without a configuration", async () => {
  const files = {
    'index.jsx': `import { place } from "there"; const h = (tag) => tag;
      export default { fetch: () => new Response([HELLO, NAME, place, <em />].join()) }`,
    'here.js': 'export const place = "here"',
    'package.json': JSON.stringify({
      scripts: {
        deploy: `wrangler deploy index.jsx --define NAME:'"Ada"' --define HELLO:'"hi"' --alias there:./here.js --jsx-factory h --var C:$C`,
      },
    }),
  };
  for (const all of [
    files,
    wranglerProject({ define: { NAME: '"Bob"' }, alias: { there: './no.js' } }, files),
  ]) {
    const { read, notes } = await worktrees.bundle(all);
    assert.equal(await answer(read('modules/index.js')), 'hi,Ada,here,em');
    assert.match(
      String(notes),
      /"deploy" of package\.json: --var C:\$C is left out, because only a shell knows/,
    );
  }
});

test('as in Wrangler, an alias replaces exactly its name, and starts at the project', async () => {
  const app = (alias: Record<string, string>, index: string, files: Files = {}) => {
    const written = wranglerProject({ alias }, { 'index.js': index, ...files });
    const inFolder = Object.entries(written).map(([path, text]) => [`apps/web/${path}`, text]);
    const set = { root_directory: 'apps/web' };
    return worktrees.bundle(Object.fromEntries(inFolder), null, 500, null, set);
  };
  const { read } = await app(
    { there: './src/here.js', react: 'preact', './x.js': './y.js', fs: './src/here.js', a: 'b', b: 'a' },
    `import { place } from "there"; import { name } from "react"; import { y } from "./x.js"; import fs from "fs";
     import { readFile } from "fs/promises"; import { rest } from "there/more"; import { b } from "a";
     export default { fetch: () => new Response([place, name, y, fs, typeof readFile, rest, b].join()) }`,
    {
      'src/here.js': 'export const place = "here"; export default place;',
      'node_modules/preact/index.js': 'export const name = "preact";',
      'y.js': 'export const y = "y";',
      'node_modules/there/more.js': 'export const rest = "more";',
      'node_modules/b/index.js': 'export const b = "b";',
    },
  );
  assert.equal(await answer(read('modules/index.js')), 'here,preact,y,here,function,more,b');
  for (const missing of [
    './src/nowhere.js',
    '../../../outside.js',
    '/etc/passwd',
    '/etc/passwd/x',
    'nowhere',
  ])
    await assert.rejects(
      app({ there: missing }, '\nimport "there"; export default {}'),
      new RegExp(
        `^BuildFailure: apps/web/index\\.js:2:8: alias: "there" is "${missing}", which is not in apps/web\n`,
      ),
    );
});

test('an unresolved import is reported with the file that has it', async () => {
  await assert.rejects(
    worktrees.bundle({ 'index.js': '\nimport "./nowhere.js"; export default {}' }),
    /^BuildFailure: index\.js:2:8: Could not resolve "\.\/nowhere\.js"\n {2}import ".\/nowhere\.js"/,
  );
});

test('a missing package is reported with the way to add it', async () => {
  const missing = (from: string) =>
    worktrees.bundle({ 'index.js': `import ${JSON.stringify(from)}; export default { fetch() {} }` });
  const advice = (name: string) => new RegExp(`add ${name} to the dependencies in package\\.json$`);
  await assert.rejects(missing('left-pad'), advice('left-pad'));
  await assert.rejects(missing('@scope/name/part.js'), advice('@scope/name'));
  for (const from of ['left-pad', '@/lib', './lib']) {
    await assert.rejects(missing(from), (error: Error) => {
      assert.doesNotMatch(error.message, /external/);
      assert.equal(/package\.json/.test(error.message), from === 'left-pad', error.message);
      return true;
    });
  }
});

test('a Node server that listens in another file is refused with advice', async () => {
  const manifest = { scripts: { start: 'node bin/www' } };
  const files = {
    'package.json': JSON.stringify(manifest),
    'app.js': 'module.exports = require("http").createServer(() => {});',
  };
  const advice = /a Worker has no port to listen on: .*httpServerHandler/;
  await assert.rejects(worktrees.bundle(files), /nothing to deploy: .*"start" of package\.json is not run/);
  await assert.rejects(worktrees.bundle(files), advice);
  const main = { ...files, 'package.json': JSON.stringify({ ...manifest, main: 'app.js' }) };
  await assert.rejects(worktrees.bundle(main), /^BuildFailure: app\.js is a Node server/);
  await assert.rejects(worktrees.bundle(main), advice);
  const pages = { ...files, 'public/index.html': '<h1>Home</h1>' };
  await assert.rejects(worktrees.bundle(pages), /^BuildFailure: "start" of package\.json runs a Node server/);
  await worktrees.bundle({ ...pages, 'dist/index.html': 'built' });
  await worktrees.bundle({ ...pages, 'package.json': '{"scripts": {"start": "gatsby develop"}}' });
  await worktrees.bundle({
    'index.js': 'require("http"); module.exports = { fetch: () => new Response("a Worker all the same") };',
  });
});

test('a module that a package disables for browsers is available where Node is', async () => {
  const files = {
    'index.js': 'import "codec"; export default { fetch: () => new Response("ok") }',
    'node_modules/codec/package.json':
      '{"name": "codec", "main": "lib/index.js", "browser": {"./lib/streams": false, "./lib/native": false}}',
    'node_modules/codec/lib/index.js':
      'if (process.versions.node) { require("./streams")(exports); require("./native"); }',
    'node_modules/codec/lib/streams.js': 'module.exports = (codec) => { codec.streams = "node streams"; }',
  };
  const current = await worktrees.bundle(files);
  assert.match(current.read('modules/index.js'), /node streams/);
  const old = await worktrees.bundle(wranglerProject({ compatibility_date: '2024-01-01' }, files));
  assert.doesNotMatch(old.read('modules/index.js'), /node streams/);
});

test("a package that replaces Node's modules for browsers keeps its replacements where Wrangler adds no polyfills", async () => {
  const files = {
    'index.js': 'import "css"; export default { fetch: () => new Response("ok") }',
    'node_modules/css/package.json':
      '{"name": "css", "main": "index.js", "browser": {"fs": false, "node:os": false, "path": "./path.js"}}',
    'node_modules/css/index.js':
      'require("fs"); require("node:os"); exports.sep = require("path").sep; exports.url = require("url");',
    'node_modules/css/path.js': 'exports.sep = "own path";',
  };
  const v1 = { compatibility_date: '2023-12-09', compatibility_flags: ['nodejs_compat'] };
  const old = (await worktrees.bundle(wranglerProject(v1, files))).read('modules/index.js');
  assert.match(old, /own path/);
  assert.doesNotMatch(old, /from "node:(?:fs|os|path)"/);
  assert.match(old, /from "node:url"/);
  const current = (await worktrees.bundle(files)).read('modules/index.js');
  assert.match(current, /node:path/);
});

test('a Worker may export classes only', async () => {
  const { bundle } = await worktrees.bundle(
    wranglerProject(
      { durable_objects: { bindings: [{ name: 'ROOMS', class_name: 'Room' }] } },
      { 'index.js': 'export class Room {}' },
    ),
  );
  assert.deepEqual(bundle.exports, ['Room']);
});

test('a script without a request handler and a Python Worker are refused with advice', async () => {
  const script = { 'index.js': 'addEventListener("error", (event) => console.log(event))' };
  await assert.rejects(worktrees.bundle(script), /^BuildFailure: index\.js has no default export/);
  const python = wranglerProject(
    { main: 'main.py', compatibility_flags: ['python_workers'] },
    { 'main.py': '' },
  );
  await assert.rejects(
    worktrees.bundle(python),
    /^BuildFailure: main\.py: Workers in Python are not supported/,
  );
  const unflagged = wranglerProject({ main: 'main.py' }, { 'main.py': '' });
  await assert.rejects(
    worktrees.bundle(unflagged),
    /^BuildFailure: wrangler\.jsonc: Workers in Python are not supported/,
  );
});

test('sources outside the project are refused, however they are reached', async () => {
  const outside = worktrees.write({
    'secret.js': 'export const token = "s3cret"',
    'secret.json': '"s3cret"',
  });
  const load = (from: string) => `export * from ${JSON.stringify(from)}; export default {}`;
  for (const files of [
    { 'index.js': load('./inside.js'), 'inside.js': { link: join(outside, 'secret.js') } },
    { 'index.js': load('./folder/secret.js'), folder: { link: outside } },
    { 'index.js': load(join(outside, 'secret.js')) },
    { 'index.js': load('./x.json'), 'x.json': { link: join(outside, 'secret.json') } },
    { 'index.js': { link: join(outside, 'secret.js') } },
    wranglerProject({}, { 'index.js': { link: join(outside, 'secret.js') } }),
    wranglerProject({ main: join(outside, 'secret.js') }),
  ]) {
    await assert.rejects(worktrees.bundle(files), (error: Error) => {
      assert.match(error.message, /lies outside the project|leaves the project|Could not resolve/);
      assert.ok(!error.message.includes('s3cret'), error.message);
      return true;
    });
  }
});

test('a package above the project does not resolve, not even in a try', async () => {
  const folder = join(worktrees.root, 'node_modules', 'above-all');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'index.js'), 'module.exports = "found";');
  const tried = (name: string) => `
    let required = 'none'; try { required = require('${name}'); } catch {}
    export default { async fetch() {
      const imported = await import('${name}').then((module) => module.default, () => 'none');
      return new Response(required + ' ' + imported);
    } }`;
  const { read } = await worktrees.bundle({ 'index.js': tried('above-all') });
  assert.equal(await answer(read('modules/index.js')), 'none none');
  const own = {
    'index.js': tried('above-all'),
    'node_modules/above-all/index.js': 'module.exports = "own";',
  };
  assert.equal(await answer((await worktrees.bundle(own)).read('modules/index.js')), 'own own');
  const needed = { 'index.js': "import 'above-all'; export default { fetch() {} }" };
  await assert.rejects(
    worktrees.bundle(needed),
    /Could not resolve "above-all"\n.*\n.*add above-all to the dep/,
  );
});

test('an import does not reveal whether a file outside the project exists', async () => {
  const told = (files: Files) => worktrees.bundle(files).then(() => 'bundled', String);
  const load = (from: string) => ({ 'index.js': `import '${from}'; export default { fetch() {} }` });
  for (const make of [
    (path: string) => load(path),
    (path: string) => load(`../../../../../../../..${path}`),
    (path: string) => ({ ...load('./ä/x'), 'ä/x.js': { link: path } }),
    (path: string) => ({ ...load('./x/passwd'), x: { link: path } }),
    (path: string) => ({ ...load('left-pad'), 'node_modules/left-pad/index.js': { link: path } }),
  ]) {
    const missing = (await told(make('/etc/no-such-file'))).replaceAll('no-such-file', 'passwd');
    assert.equal(await told(make('/etc/passwd')), missing);
    assert.match(missing, /Could not resolve/);
  }
});

test('an import with a pattern does not reveal which files exist outside the project', async () => {
  const outside = basename(
    worktrees.write({ 'one/a.js': '', 'two/a.js': '', 'two/b.js': '', 'txt/a.txt': '' }),
  );
  const entry = (expression: string) => ({
    'index.js': `export const load = (x) => ${expression}.catch(() => 0); export default { fetch() {} }; import "./later.js";`,
  });
  const outcomeOf = (files: Files) => worktrees.bundle(files).then(() => 'bundled', String);
  for (const make of [
    (name: string) => entry(`import(\`../${outside}/${name}/\${x}.js\`)`),
    (name: string) => entry(`import('../${outside}/${name}/' + x + '.js')`),
    (name: string) => entry(`import(\`./link/${name}/\${x}.js\`)`),
  ]) {
    const link = { link: join(worktrees.root, outside) };
    const [none, ...others] = await Promise.all(
      ['nil', 'one', 'two', 'txt'].map(async (name) =>
        (await outcomeOf({ ...make(name), link })).replaceAll(name, 'nil'),
      ),
    );
    for (const other of others) assert.equal(other, none);
    assert.match(none!, /index\.js:1:\d+: Could not resolve .*\n.*\n.*Could not resolve ".\/later.js"/);
  }
});

test('source maps are read only inside the project', async () => {
  const map = (name: string) =>
    JSON.stringify({ version: 3, sources: [`${name}.ts`], names: [name], mappings: 'AAAAA' });
  const outside = worktrees.write({ 'v.map': map('s3cret') });
  const name = basename(outside);
  const comments = [
    `//# sourceMappingURL=${outside}/v.map`,
    `//# sourceMappingURL=../../${name}/v.map`,
    `//# sourceMappingURL=../../${name}/v.map?x`,
    `//# sourceMappingURL=../../${name}/v.map#x`,
    `//@ sourceMappingURL=../../${name}/v.map\ufeffx`,
    `/*# sourceMappingURL=../../${name}/v.map*/`,
    `/*# sourceMappingURL=a\u2028/../../../${name}/v.map */`,
    `//# sourceMappingURL=*/../../../${name}/v.map`,
    `//# sourceMappingURL=%2e%2e/%2E%2e/${name}/v.map`,
    `//# sourceMappingURL=../../${encodeURIComponent(name).replace('w', '%77')}/v.map`,
    `//# sourceMappingURL=FILE://${outside}/v.map`,
    `//# sourceMappingURL=//localhost${outside}/v.map`,
    `//# sourceMappingURL=//user@localhost${outside}/v.map`,
    '//# sourceMappingURL=inner//../folder/v.map',
    '//# sourceMappingURL=link.map',
    '//# sourceMappingURL=link.map?x',
    '//# sourceMappingURL=folder/v.map',
    '/* sourceMappingURL= */ //# sourceMappingURL=v.map\n//# sourceMappingURL=link.map',
  ];
  const mapOf = async (comment: string, more: Files = {}) => {
    const { read } = await worktrees.bundle({
      'index.js': "import './src/part.js'; export default { fetch() {} }",
      'src/part.js': `globalThis.part = 'kept';\n${comment}`,
      'src/link.map': { link: join(outside, 'v.map') },
      'src/folder': { link: outside },
      'src/inner/folder': { link: outside },
      ...more,
    });
    assert.match(read('modules/index.js'), /"kept"/);
    return read('modules/index.js.map');
  };
  for (const comment of comments) assert.doesNotMatch(await mapOf(comment), /s3cret/, comment);
  for (const [comment, path] of [
    ['//# sourceMappingURL=part.js.map', 'src/part.js.map'],
    ['//# sourceMappingURL=../maps/part.map', 'maps/part.map'],
    [`//# sourceMappingURL=data:application/json,${encodeURIComponent(map('own'))}`, 'unused.map'],
  ] as const)
    assert.match(await mapOf(comment, { [path]: map('own') }), /own\.ts/, comment);
  const invalid = Buffer.from('//# sourceMappingURL=\xff/v.map', 'latin1');
  assert.match(withoutMapsOutside(outside, join(outside, 'a.js'), invalid)!, /sourceMappingUrl=/);
  // The text in a string stays as it is, unless it names a file outside.
  const quoted = "globalThis.text = '//# sourceMappingURL=' + globalThis.part;";
  const { read } = await worktrees.bundle({ 'index.js': `${quoted} export default { fetch() {} }` });
  assert.match(read('modules/index.js'), /# sourceMappingURL=/);
});

test('a broken file outside the project is not shown in the error', async () => {
  const secret = join(worktrees.write({ token: 's3cret' }), 'token');
  const files = { 'index.ts': 'export default {}', 'tsconfig.json': { link: secret } };
  const outcome = await worktrees.bundle(files).then(
    ({ notes }) => notes.join('\n'),
    (error: Error) => error.message,
  );
  assert.ok(!outcome.includes(readFileSync(secret, 'utf8')), outcome);
});

/** Makes a project with hard links to one sparse file, which takes no disk space. */
function linked(config: object, index: string, size: number): { worktree: string; out: string } {
  const worktree = worktrees.write(wranglerProject(config as Record<string, unknown>, { 'index.js': index }));
  writeFileSync(join(worktree, 'large'), '');
  truncateSync(join(worktree, 'large'), size);
  for (const n of [0, 1, 2]) linkSync(join(worktree, 'large'), join(worktree, `${n}.bin`));
  return { worktree, out: join(worktrees.write({}), 'bundle') };
}

test('links to one file cannot fill the disk: the total size of modules is limited', async () => {
  const limit = { settings: NO_SETTINGS, environment: null, deployLine: null, assetsMb: 1, before: null };
  const index = 'export default { fetch() {} };';
  const found = linked({ find_additional_modules: true }, index, 50 * 2 ** 20);
  await assert.rejects(
    bundleProject({ ...found, ...limit }),
    /find_additional_modules: .* more than 128 MiB/,
  );
  const imports = [0, 1, 2].map((n) => `import a${n} from './${n}.bin';`).join('');
  const imported = linked(
    {},
    `${imports} export default { fetch: () => new Response(a0 + a1 + a2) };`,
    44 * 2 ** 20,
  );
  await assert.rejects(bundleProject({ ...imported, ...limit }), /imports have more than 128 MiB/);
});

test('functions/ that is or contains a link out of the project is not read', async () => {
  const outside = worktrees.write({ 'secret-name.js': 'export function onRequest() {}' });
  const files = { 'public/index.html': '<h1>x</h1>' };
  const [whole, one] = [worktrees.write(files), worktrees.write(files)];
  symlinkSync(outside, join(whole, 'functions'));
  mkdirSync(join(one, 'functions'));
  symlinkSync(join(outside, 'secret-name.js'), join(one, 'functions', 'a.js'));
  for (const worktree of [whole, one]) {
    const built = { worktree, settings: NO_SETTINGS, environment: null, deployLine: null, before: null };
    assert.equal(await findFunctions(built), false);
  }
});
