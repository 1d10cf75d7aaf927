// A file or function that a comment or a page names in back quotes must exist.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';

/** Names of other programs and of examples. */
const FOREIGN = new Set([
  'CommaExpected',
  'a/b/c.ts',
  'capnpConnectHost',
  'forwardAuth',
  'open-next.config.ts',
  'src/index.ts',
  'toMarkdown',
  'trustForwardHeader',
  'usr_01H8XGJWBWBAQ4',
]);
const COMMENT = /\/\*[\s\S]*?\*\/|(?<=^|[\s;{}(),])\/\/[^\n]*/g;
const QUOTED = /`([^`\n]+)`/g;
const FILE = /^[\w./-]+\.(?:ts|tsx|mjs)$/;
const FOLDER = /^(?:bench|bundler|cli|docs|handlers|runtime|scripts|sqlite|test|ui)\/(?:[\w.-]+\/)*$/;
/** A camel-case name or a call of a function, also behind the names of its objects: `a.b.call()`. */
const NAME = /^(?:\w+\.)*(?:([a-z]\w*[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*)(?:\(.*\))?|(\w+)\(.*\))$/;

/** A member of a class or an interface. */
const MEMBER = /^([A-Z]\w*)\.(\w+)(?:\(.*\))?$/;
const DECLARATION = /\b(?:class|interface) (\w+)/g;

const listed = execFileSync('git', ['ls-files', '-z', '-co', '--exclude-standard'], { encoding: 'utf8' });
const files = listed.split('\0').filter((file) => file !== '' && existsSync(file));
const fileNames = new Set(files.map((file) => basename(file)));
const words = new Set<string>();
/** The words of the files that declare a class or an interface, by its name. */
const besideDeclaration = new Map<string, Set<string>>();
const quoted: { in: string; name: string }[] = [];
const quotedIn = (file: string, text: string) =>
  quoted.push(...[...text.matchAll(QUOTED)].map(([, name]) => ({ in: file, name: name! })));

for (const file of files) {
  if (/\.(ts|tsx|js|mjs|sql|css|html)$/.test(file)) {
    const code = readFileSync(file, 'utf8').replace(COMMENT, (comment) => {
      quotedIn(file, comment);
      return ' ';
    });
    const own = new Set(code.match(/\w+/g));
    for (const word of own) words.add(word);
    for (const [, name] of code.matchAll(DECLARATION))
      besideDeclaration.set(name!, new Set([...own, ...(besideDeclaration.get(name!) ?? [])]));
  } else if (file.endsWith('.md') && file !== 'CHANGELOG.md') {
    quotedIn(file, readFileSync(file, 'utf8').replace(/```[\s\S]*?```/g, ''));
  }
}

function isThere({ in: file, name }: { in: string; name: string }): boolean {
  if (FOLDER.test(name)) return existsSync(name) || existsSync(join(dirname(file), name));
  if (FILE.test(name)) {
    return name.includes('/')
      ? existsSync(name) || existsSync(join(dirname(file), name))
      : fileNames.has(name);
  }
  const [, owner, member] = MEMBER.exec(name) ?? [];
  if (besideDeclaration.get(owner!)?.has(member!) === false) return false;
  const [, camel, called] = NAME.exec(name) ?? [];
  const word = camel ?? called;
  return word === undefined || words.has(word) || FOREIGN.has(word);
}

test('each file, folder and function that a comment or a page names is there', () => {
  assert.ok(quoted.length > 1_000, 'the names are found');
  const missing = quoted.filter((each) => !FOREIGN.has(each.name) && !isThere(each));
  assert.deepEqual(
    missing.map((each) => `${each.in}: ${each.name}`),
    [],
  );
});

test('a job for a thread is named as the function of its type', () => {
  const JOB = /\brun<typeof (?:\w+\.)?(\w+)>\(\s*[^,]+,\s*'(\w+)'/g;
  const jobs = files
    .filter((file) => file.startsWith('runtime/'))
    .flatMap((file) => [...readFileSync(file, 'utf8').matchAll(JOB)]);
  assert.ok(jobs.length > 10, 'the jobs are found');
  assert.deepEqual(
    jobs.filter(([, type, name]) => type !== name).map(([job]) => job),
    [],
  );
});
