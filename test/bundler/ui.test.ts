// The control UI as it is served: complete, small, and without files from other origins.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { bundleUi, withImports } from '../../bundler/modules/ui.ts';

/** Maximum gzip bytes of each screen with the page and everything that they load at once, without the editor. */
const BUDGET = 90 * 1024;
/** Maximum gzip bytes that the editor adds to the first view. */
const EDITOR_BUDGET = 150 * 1024;
const { files, first, metafile } = await bundleUi();

const sizes = new Map(files.map(({ path, contents }) => [path, gzipSync(contents).length]));
const sizeOf = (paths: Iterable<string>) => [...paths].reduce((sum, path) => sum + sizes.get(path)!, 0);

test('each screen with the page and everything that it loads at once stays within its byte budget', () => {
  for (const [path, { entryPoint }] of Object.entries(metafile.outputs)) {
    if (!entryPoint?.startsWith('ui/screens/')) continue;
    const loaded = new Set([
      ...first,
      '/index.html',
      ...withImports(metafile.outputs, path).map((each) => `/${each}`),
    ]);
    const bytes = sizeOf(loaded);
    assert.ok(bytes <= BUDGET, `${entryPoint} needs ${bytes} bytes of gzip, more than ${BUDGET}`);
  }
});

test('the first view has few files, all named in the page: a browser loads six at a time', () => {
  assert.ok(first.length <= 3, `${first.length} files: ${first.join(' ')}`);
  const page = new TextDecoder().decode(files.find(({ path }) => path === '/index.html')!.contents);
  for (const path of first) assert.ok(page.includes(`"${path}"`), path);
});

test('the editor with its script languages stays within a budget of its own', () => {
  const loaded = new Set<string>();
  for (const [path, { entryPoint }] of Object.entries(metafile.outputs)) {
    if (!entryPoint?.endsWith('ui/editor/editor.tsx') && !entryPoint?.endsWith('languages/javascript.ts'))
      continue;
    for (const each of withImports(metafile.outputs, path)) loaded.add(`/${each}`);
  }
  for (const path of first) loaded.delete(path);
  assert.ok(loaded.size >= 2);
  const bytes = sizeOf(loaded);
  assert.ok(bytes <= EDITOR_BUDGET, `the editor needs ${bytes} bytes of gzip, more than ${EDITOR_BUDGET}`);
});

test('the page names only existing files, and nothing inline or from another origin', () => {
  const page = new TextDecoder().decode(files.find(({ path }) => path === '/index.html')!.contents);
  const named = [...page.matchAll(/(?:src|href)="([^"]*)"/g)].map((match) => match[1]!);
  assert.ok(named.length >= 4);
  // `/session` is not a file: the server answers it with the account that is signed in.
  for (const path of named) assert.ok(sizes.has(path) || path === '/session', `${path} is not there`);
  assert.doesNotMatch(page, /<script(?![^>]*src=)|<style|style="|\son\w+="/);
});

test('immutable files have a hash in their name, and every file has a type', () => {
  for (const { path, immutable, type } of files) {
    assert.equal(immutable, path.startsWith('/assets/'), path);
    if (immutable) assert.match(path, /-[A-Z0-9]{8}\.(js|css)$/);
    assert.ok(type, path);
  }
});

test('the docs are pages whose links lead to other pages and to headings that exist', () => {
  const pages = new Map(
    files
      .filter(({ path }) => path.startsWith('/docs/'))
      .map(({ path, contents }) => [path, new TextDecoder().decode(contents)]),
  );
  assert.ok(pages.size > 20);
  for (const [path, html] of pages) {
    assert.doesNotMatch(html, /<script(?![^>]*src=)|<style|style="|\son\w+="/, path);
    for (const [, href] of html.matchAll(/(?:src|href)="([^"]*)"/g)) {
      if (/^https?:/.test(href!)) continue;
      const [to, anchor] = href!.split('#');
      const target = to === '' ? html : pages.get(to!);
      assert.ok(target !== undefined || sizes.has(to!) || to === '/', `${path} leads to ${href}`);
      if (anchor !== undefined) assert.ok(target!.includes(` id="${anchor}"`), `${path} leads to ${href}`);
    }
  }
});
