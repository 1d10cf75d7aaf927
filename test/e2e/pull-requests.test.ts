// Pull requests of a connected repository: previews, commit statuses and comments, approvals, and their end.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { commit } from '../support/builds/projects.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { CERTIFICATE, GitHost, gitIn } from '../support/git/git-host.ts';
import { GitHostApi } from '../support/git/git-host-api.ts';
import { eventually } from '../support/processes.ts';

/** Timeout in ms. The first deploy of a Cellar resolves the registries' addresses, which may be slow. */
const DEPLOY_MS = 240_000;
const SECRET = 'a-secret-of-sixteen-or-more';
const TOKEN = 'the-token';

const cellar = new Cellar({
  RUNNER_EGRESS_ALLOW: '127.0.0.1',
  SSL_CERT_FILE: CERTIFICATE,
  NODE_EXTRA_CA_CERTS: CERTIFICATE,
});
const host = new GitHost();
const rpc = rpcOf(cellar);
before(async () => {
  await Promise.all([host.start(), cellar.start()]);
});
after(async () => {
  host.close();
  await cellar[Symbol.asyncDispose]();
});

type Kind = 'github' | 'gitea' | 'gitlab';

/** Makes a repository `ada/NAME` at a Git host, and an app NAME that is connected to it. */
async function connected(kind: Kind, name: string) {
  const { repository } = commit(cellar.directory, { 'index.js': worker('main') });
  const full = `ada/${name}`;
  host.repositories.set(full, { path: repository, token: TOKEN });
  const prefix = {
    github: `/api/v3/repos/${full}`,
    gitea: `/api/v1/repos/${full}`,
    gitlab: `/api/v4/projects/${encodeURIComponent(full)}`,
  }[kind];
  const api = new GitHostApi(kind, prefix, TOKEN);
  host.api = (request, response) => void api.answer(request, response);
  const id = await cellar.create(name);
  await rpc('source.connect', { id, url: host.url(full), secret: SECRET, token: TOKEN, deploy_on: 'manual' });
  const work = dirname(repository);
  /** Commits a text, under the ref of a pull request. */
  const open = (number: number, text: string, source = worker(text)): string => {
    gitIn(work, 'checkout', '--quiet', '--detach');
    writeFileSync(join(work, 'index.js'), source);
    gitIn(work, 'commit', '--quiet', '--all', '--allow-empty', '--message', text);
    const ref = kind === 'gitlab' ? `refs/merge-requests/${number}/head` : `refs/pull/${number}/head`;
    gitIn(work, 'update-ref', ref, 'HEAD');
    return gitIn(work, 'rev-parse', 'HEAD');
  };
  const pull = async (number: number) => {
    const { pulls } = await rpc('source.get', { id });
    return pulls.find((each: { number: number }) => each.number === number);
  };
  const reaches = (number: number, state: string): Promise<void> =>
    eventually(
      async () => (await pull(number))?.state === state,
      `pull request ${number} is ${state}`,
      DEPLOY_MS,
    );
  return { id, api, open, pull, reaches, full };
}

function worker(text: string): string {
  return `export default { fetch: () => new Response(${JSON.stringify(text)}) };\n`;
}

let clock = Date.parse('2026-01-01T00:00:00Z');
interface Told {
  repository: string;
  number: number;
  sha: string;
  isOpen?: boolean;
  /** The repository that has the pull request's commits. */
  from?: string;
  association?: string;
  at?: number;
}

/** Returns a webhook delivery about a pull request, in the format of the Git host. */
function told(
  kind: Kind,
  { repository, number, sha, isOpen = true, from = repository, association, at }: Told,
) {
  clock += 1000;
  const time = new Date(at ?? clock).toISOString();
  if (kind === 'gitlab') {
    const merge = {
      iid: number,
      title: 'A change',
      state: isOpen ? 'opened' : 'merged',
      updated_at: time.replace('T', ' ').replace(/\.\d+Z/, ' UTC'),
      author_id: 7,
      source_project_id: from === repository ? 1 : 2,
      target_project_id: 1,
      last_commit: { id: sha },
    };
    const body = JSON.stringify({
      project: { path_with_namespace: repository },
      object_attributes: merge,
      clock,
    });
    return { body, headers: { 'x-gitlab-event': 'Merge Request Hook', 'x-gitlab-token': SECRET } };
  }
  const pull = {
    number,
    title: 'A change',
    state: isOpen ? 'open' : 'closed',
    updated_at: time,
    user: { login: 'grace' },
    head: { ref: 'change', sha, repo: { full_name: from } },
    base: { repo: { full_name: repository } },
    ...(kind === 'github' && { author_association: association ?? 'MEMBER' }),
  };
  const body = JSON.stringify({ action: 'synchronize', number, pull_request: pull, clock });
  const signature = createHmac('sha256', SECRET).update(body).digest('hex');
  const github = { 'x-github-event': 'pull_request', 'x-hub-signature-256': `sha256=${signature}` };
  const gitea = { 'x-gitea-event': 'pull_request', 'x-gitea-signature': signature };
  return { body, headers: kind === 'github' ? github : { ...github, ...gitea } };
}

async function deliver(id: string, { headers, body }: ReturnType<typeof told>): Promise<unknown> {
  const response = await fetch(`${cellar.api}/v1/hooks/${id}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers } as Record<string, string>,
    body,
  });
  return response.json();
}

const QUEUED = { result: 'queued' };
const IGNORED = { result: 'ignored' };

for (const kind of ['github', 'gitea', 'gitlab'] as const)
  test(`a pull request at ${kind} gets a preview, a status and one comment, and loses the preview when merged`, async () => {
    const { id, api, open, pull, reaches, full: repository } = await connected(kind, kind);
    if (kind === 'gitea') api.teamMembers.add('Grace');
    else api.members.add('grace').add('7');
    const sha = open(5, 'proposed');
    api.failures.push(503);
    assert.deepEqual(await deliver(id, told(kind, { repository, number: 5, sha })), QUEUED);
    await reaches(5, 'live');
    const { url } = await pull(5);
    assert.match(url, new RegExp(`//pull-5--${kind}\\.`));
    assert.equal((await cellar.get(`pull-5--${kind}`)).text, 'proposed');
    await eventually(
      () => api.statuses.at(-1)?.body.target_url === url,
      'the Git host knows the address',
      DEPLOY_MS,
    );
    const last = api.statuses.at(-1)!;
    assert.equal(last.sha, sha);
    assert.equal(last.body.state, 'success');
    assert.equal(last.body[kind === 'gitlab' ? 'name' : 'context'], `cellar/${kind}`);
    await eventually(
      () => api.comments.get(1)?.includes(url) === true,
      'the comment has the address',
      DEPLOY_MS,
    );

    const broken = open(5, 'broken', 'export default {');
    assert.deepEqual(await deliver(id, told(kind, { repository, number: 5, sha: broken })), QUEUED);
    await reaches(5, 'failed');
    const isFailed = () => api.statuses.at(-1)?.body.state?.startsWith('fail') === true;
    await eventually(isFailed, 'the Git host knows of the failure', DEPLOY_MS);
    assert.equal(api.statuses.at(-1)!.sha, broken);

    // An older delivery arrives late.
    assert.deepEqual(
      await deliver(id, told(kind, { repository, number: 5, sha, at: clock - 60_000 })),
      IGNORED,
    );
    assert.deepEqual(
      await deliver(id, told(kind, { repository, number: 5, sha: broken, isOpen: false })),
      QUEUED,
    );
    await reaches(5, 'closed');
    await eventually(
      async () => (await rpc('previews.list', { id })).items.length === 0,
      'the preview is removed',
      DEPLOY_MS,
    );
    await eventually(
      () => api.comments.get(1)?.includes('removed') === true,
      'the comment says so',
      DEPLOY_MS,
    );
    assert.equal((await pull(5)).url, null);
    assert.deepEqual([...api.comments.keys()], [1]);
    assert.deepEqual(
      await deliver(id, told(kind, { repository, number: 5, sha, at: clock - 60_000 })),
      IGNORED,
    );
  });

test('nothing of a pull request from outside is fetched before it is approved, and each commit anew', async () => {
  const { id, api, open, pull, reaches, full: repository } = await connected('github', 'outside');
  const sha = open(1, 'outside');
  const requests = () => host.requests.filter((path) => path.startsWith(`/${repository}/`)).length;
  const before = requests();
  const outside = { repository, number: 1, from: 'mallory/outside' };
  assert.deepEqual(await deliver(id, told('github', { ...outside, sha })), QUEUED);
  await reaches(1, 'waiting');
  await eventually(() => api.comments.get(1)?.includes('approve') === true, 'the comment says so', DEPLOY_MS);
  assert.equal(api.statuses.at(-1)!.body.state, 'pending');
  assert.equal(requests(), before);
  assert.equal((await rpc('previews.list', { id })).items.length, 0);
  assert.equal((await rpc('source.approve', { id, number: 2, sha })).code, 'pull_request_not_found');
  // An approval must name its commit, because the newest one may not have been reviewed.
  assert.equal((await rpc('source.approve', { id, number: 1 })).code, 'invalid_input');
  const other = await rpc('source.approve', { id, number: 1, sha: '1'.repeat(40) });
  assert.equal(other.code, 'commit_conflict');
  assert.equal((await rpc('source.approve', { id, number: 1, sha })).state, 'queued');
  await reaches(1, 'live');
  assert.equal((await cellar.get('pull-1--outside')).text, 'outside');
  const next = open(1, 'next');
  await deliver(id, told('github', { ...outside, sha: next }));
  await reaches(1, 'waiting');
  assert.equal((await pull(1)).sha, next);
  assert.equal((await cellar.get('pull-1--outside')).text, 'outside');

  // An outside author with a branch in the repository itself, and an author whose membership is unknown.
  const unknown = { repository, sha, association: 'CONTRIBUTOR' };
  await deliver(id, told('github', { ...unknown, number: 3 }));
  await reaches(3, 'waiting');
  api.notMember = 403;
  await deliver(id, told('github', { ...unknown, number: 5 }));
  await reaches(5, 'waiting');
  // A private member of the organization.
  api.members.add('grace');
  const inside = open(6, 'inside');
  await deliver(id, told('github', { ...unknown, number: 6, sha: inside }));
  await reaches(6, 'live');
  await deliver(id, told('gitea', { repository, number: 4, sha }));
  assert.deepEqual(
    await deliver(id, told('github', { repository: 'mallory/outside', number: 9, sha })),
    IGNORED,
  );

  await rpc('source.disconnect', { id });
  await eventually(
    async () => (await rpc('previews.list', { id })).items.length === 0,
    'no previews are left',
    DEPLOY_MS,
  );
});
