// Odd, broken or hostile projects, pushed to a real host: each gets a clear answer and leaves nothing behind.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar } from '../../support/e2e/cellar.ts';
import { eventually, processes } from '../../support/processes.ts';

const cellar = new Cellar({ RUNNER_MAX_APPS_PER_USER: '100' });
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

interface Project {
  what: string;
  /** Changes a worktree that holds a one-file Worker. */
  make: (work: string) => unknown;
  /** Expected in the output of the push. */
  says: RegExp;
  /** The app's response after the deploy. Absent: the deploy is refused. */
  answers?: RegExp;
}

const write = (work: string, files: Record<string, string | Buffer>) => {
  for (const [path, content] of Object.entries(files)) writeFileSync(join(work, path), content);
};
const site = (work: string) => {
  rmSync(join(work, 'index.js'));
  write(work, { 'index.html': 'a page' });
};
const script = (work: string, build: string) =>
  write(work, { 'package.json': JSON.stringify({ scripts: { build } }) });
/** Writes a file whose name is not valid UTF-8. */
const writeNameless = (work: string) =>
  writeFileSync(Buffer.concat([Buffer.from(`${work}/`), Buffer.from([0xff, 0xfe])]), '');

const ran = join(cellar.directory, 'hook-ran');
const projects: Project[] = [
  {
    what: 'hooks in the tree',
    make: (work) => {
      for (const directory of ['hooks', '.githooks']) {
        mkdirSync(join(work, directory));
        for (const hook of ['post-receive', 'post-checkout', 'reference-transaction'])
          writeFileSync(join(work, directory, hook), `#!/bin/sh\ntouch ${ran}\n`, { mode: 0o755 });
      }
    },
    says: /serves this push/,
    answers: /Hello/,
  },
  {
    what: 'a submodule and a file in Git LFS',
    make: async (work) => {
      write(work, {
        '.gitattributes': '*.png filter=lfs\n',
        '.gitmodules': '[submodule "lib"]\n\tpath = lib\n\turl = file:///etc\n',
      });
      const { stdout } = await cellar.git(work, 'rev-parse', 'HEAD');
      await cellar.git(work, 'update-index', '--add', '--cacheinfo', `160000,${stdout.trim()},lib`);
      mkdirSync(join(work, 'lib'));
    },
    says: /lib is a submodule and stays empty[\s\S]*stay pointers[\s\S]*serves this push/,
    answers: /Hello/,
  },
  {
    what: '10,000 files',
    make: (work) => {
      site(work);
      for (let i = 0; i < 100; i++) {
        mkdirSync(join(work, `d${i}`));
        for (let j = 0; j < 100; j++) writeFileSync(join(work, `d${i}`, `${j}.txt`), `${i} ${j}`);
      }
    },
    says: /static site: 10001 files/,
    answers: /a page/,
  },
  {
    what: 'a file of 100 MB',
    make: (work) => write(work, { 'big.bin': Buffer.alloc(100 * 2 ** 20) }),
    says: /serves this push/,
    answers: /Hello/,
  },
  {
    what: 'a name that is no UTF-8, in a Worker',
    make: writeNameless,
    says: /serves this push/,
    answers: /Hello/,
  },
  {
    what: 'a name that is no UTF-8, in a site',
    make: (work) => {
      site(work);
      writeNameless(work);
    },
    says: /deploy failed: assets: the name of .* is not valid UTF-8/,
  },
  {
    what: 'a build that leaves a daemon',
    make: (work) => script(work, 'setsid sleep 7654.25 > /dev/null 2>&1 &'),
    says: /serves this push/,
    answers: /Hello/,
  },
  {
    what: 'a build that puts a pipe in the place of package.json',
    make: (work) => {
      script(work, 'rm package.json index.js && mkfifo package.json');
    },
    says: /deploy failed: package\.json is not a file/,
  },
  {
    what: 'a build that leaves directories nobody may enter',
    make: (work) => script(work, 'mkdir -p a/b && touch a/b/c && chmod 0 a/b a'),
    says: /serves this push/,
    answers: /Hello/,
  },
  {
    what: 'an entry that is a link out of the tree',
    make: (work) => {
      rmSync(join(work, 'index.js'));
      symlinkSync('/etc/hostname', join(work, 'index.js'));
    },
    says: /deploy failed: index\.js is a link that leaves the project/,
  },
  {
    what: 'a site with a link out of the tree',
    make: (work) => {
      site(work);
      symlinkSync('/etc', join(work, 'etc'));
    },
    says: /deploy failed: assets: etc is a link that leaves the project/,
  },
  {
    what: 'a link to itself',
    make: (work) => {
      rmSync(join(work, 'index.js'));
      symlinkSync('index.js', join(work, 'index.js'));
    },
    says: /deploy failed: index\.js is a link that leaves the project, or leads nowhere/,
  },
  {
    what: 'a Worker that is no text',
    make: (work) => write(work, { 'index.js': Buffer.from('\x1b[31m\x07\0\xff\xfe'.repeat(100), 'latin1') }),
    // The source line is shown without its terminal control sequences.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
    says: /^[^\x00-\x09\x0b-\x1f\x7f]*deploy failed: index\.js:1:\d+: Unexpected "\\x1b"[^\x00-\x09\x0b-\x1f\x7f]*$/,
  },
  {
    what: 'a Worker that is a pointer of Git LFS',
    make: (work) =>
      write(work, {
        '.gitattributes': '*.js filter=lfs\n',
        'index.js': `version https://git-lfs.github.com/spec/v1\noid sha256:${'0'.repeat(64)}\nsize 1\n`,
      }),
    says: /stay pointers: LFS objects are not fetched[\s\S]*deploy failed: index\.js:1:9[\s\S]*git-lfs/,
  },
  {
    what: 'a site with names that differ in case only',
    make: (work) => {
      site(work);
      write(work, { 'Index.html': 'another', 'INDEX.HTML': 'a third' });
    },
    says: /static site: 3 files[\s\S]*serves this push/,
    answers: /^a page$/,
  },
  {
    what: 'a Node server',
    make: (work) =>
      write(work, {
        'index.js': "require('http').createServer((q, s) => s.end()).listen(process.env.PORT);\n",
      }),
    says: /deploy failed: index\.js is a Node server, and a Worker has no port to listen on: .*httpServerHandler/,
  },
  {
    what: 'a Node server that is handed to workerd',
    make: (work) =>
      write(work, {
        'index.js': `import { createServer } from 'node:http';
          import { httpServerHandler } from 'cloudflare:node';
          createServer((request, response) => response.end('from Node')).listen(3000);
          export default httpServerHandler({ port: 3000 });`,
      }),
    says: /serves this push/,
    answers: /from Node/,
  },
];

for (const [i, { what, make, says, answers }] of projects.entries()) {
  test(`${what}: ${answers ? 'is deployed' : 'is refused'}, and nothing is left`, async () => {
    const slug = `project-${i}`;
    await cellar.create(slug);
    const work = await cellar.checkout('hello');
    await make(work);
    await cellar.commit(work, what);
    const { stderr } = await cellar.push(work, slug);
    assert.match(stderr, says);
    const { status, text } = await cellar.get(slug);
    if (answers) assert.match(text, answers);
    else assert.equal(status, 404, stderr);
    // The client gets its answer before the files of the build are removed.
    await eventually(() => readdirSync(join(cellar.data, 'builds')).length === 0, 'the build is removed');
    const inBuilds = () =>
      processes().some(({ command }) =>
        command.some((word) => word.includes(`${cellar.data}/builds`) || word === '7654.25'),
      );
    await eventually(() => !inBuilds(), 'no process of the build is left');
    assert.ok(!existsSync(ran), 'no hook of the tree has run');
  });
}
