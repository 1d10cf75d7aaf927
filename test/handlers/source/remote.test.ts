// URLs of remote repositories: which are accepted, and how they are normalised.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { operationsByName } from '../../../handlers/contract/index.ts';
import { parseRemote } from '../../../handlers/contract/source/remote.ts';
import { repositoryName } from '../../../runtime/sources/pulls/git-host-api.ts';

test('an address is HTTPS or SSH, also in the short form', () => {
  const known: [string, string, string, number][] = [
    ['https://github.com/ada/shop.git', 'https://github.com/ada/shop.git', 'github.com', 443],
    ['https://[2001:db8::1]:8443/x', 'https://[2001:db8::1]:8443/x', '2001:db8::1', 8443],
    ['git@github.com:ada/shop.git', 'ssh://git@github.com/ada/shop.git', 'github.com', 22],
    ['ssh://me@host:2222/~/shop', 'ssh://me@host:2222/~/shop', 'host', 2222],
    ['ssh://host/shop', 'ssh://git@host/shop', 'host', 22],
  ];
  for (const [text, url, host, port] of known) {
    const { kind: _, ...remote } = parseRemote(text)!;
    assert.deepEqual(remote, { url, host, port }, text);
  }
});

test('what git or SSH would take for a command, a file or an option is none', () => {
  for (const text of [
    '',
    '/etc/passwd',
    './x',
    'file:///etc',
    'ext::sh -c id',
    'fd::17',
    'git://host/x',
    'http://host/x',
    'ftp://host/x',
    'https://me@host/x',
    'https://me:secret@host/x',
    'https://host/x?y=1',
    'https://host/x#y',
    '--upload-pack=id',
    '-oProxyCommand=id',
    'ssh://-oProxyCommand=id/x',
    'ssh://-x@host/x',
    'ssh://git:secret@host/x',
    'git@-oProxyCommand=id:x',
    '-x@host:x',
    'ssh://git@host',
    'ssh://git@ho$(id)st/x',
    "ssh://git@host/x';id;'",
    'git@host:x$(id)',
  ])
    assert.equal(parseRemote(text), null, text);
});

test('a broken percent escape is refused by name, and an old one names a repository all the same', () => {
  const { input } = operationsByName.get('source.connect')!;
  const asked = { id: 'shop', url: 'https://example.com/ada/100%.git' };
  const issues = input.safeParse(asked).error?.issues.map(({ path, message }) => [path.join('.'), message]);
  assert.deepEqual(issues, [['url', 'has a broken percent escape: write the character % as %25']]);
  assert.ok(input.safeParse({ ...asked, url: 'https://example.com/ada/100%25.git' }).success);
  assert.equal(repositoryName(parseRemote(asked.url)!), 'ada/100%');
  assert.equal(repositoryName(parseRemote('https://example.com/ada/a%20b.git')!), 'ada/a b');
});
