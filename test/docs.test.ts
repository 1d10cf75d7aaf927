// The documentation: generated pages match the code, and every link has a target.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { pages } from '../scripts/docs.ts';
import { temporaryDirectory } from './support/temporary.ts';

const README_BYTES = 8 * 1024;

for (const [path, text] of Object.entries(pages())) {
  test(`${path} is what the code says`, () => {
    assert.equal(readFileSync(path, 'utf8'), text, '`npm run docs` writes it');
  });
}

test('the README is short', () => {
  assert.ok(statSync('README.md').size <= README_BYTES);
});

test('every link between pages leads to a page, and every page of docs/ is reached from the README', () => {
  const seen = new Set<string>();
  const visit = (page: string): void => {
    if (seen.has(page)) return;
    seen.add(page);
    for (const [, target] of readFileSync(page, 'utf8').matchAll(/\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)/g)) {
      const path = join(dirname(page), target!);
      assert.ok(existsSync(path), `${page} links to ${path}`);
      if (path.endsWith('.md')) visit(path);
    }
  };
  visit('README.md');
  for (const page of globSync('docs/*.md')) assert.ok(seen.has(page), `no page links to ${page}`);
});

test('files that pages name are there', () => {
  for (const page of ['README.md', ...globSync('docs/**/*.md')]) {
    const names = readFileSync(page, 'utf8').matchAll(
      /`((?:runtime|handlers|bundler|sqlite|bench|test|scripts)\/[\w./-]+\.(?:ts|js))`/g,
    );
    for (const [, path] of names) assert.ok(existsSync(path!), `${page} names ${path}`);
  }
});

test('the tour of the README commits a template on a machine without a Git identity', (t) => {
  const home = temporaryDirectory(t);
  const [commands] = /cp -r templates\/hello .*\n.* commit .*/.exec(readFileSync('README.md', 'utf8'))!;
  const env = { PATH: process.env.PATH, HOME: home, GIT_CONFIG_NOSYSTEM: '1' };
  execFileSync('sh', ['-ec', commands.replaceAll('/tmp/hello', `${home}/hello`)], { env, timeout: 30_000 });
  const { stdout } = spawnSync('git', ['log', '--format=%s %an'], { cwd: `${home}/hello`, env });
  assert.equal(stdout.toString(), 'Hello You\n');
});
