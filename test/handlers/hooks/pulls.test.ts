// Webhook deliveries about pull requests, as GitHub, Gitea, Forgejo and GitLab send them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pullOf as readPull } from '../../../handlers/hooks/pulls.ts';

const SHA = 'a'.repeat(40);

function common(change: object = {}, head: object = {}) {
  return {
    action: 'synchronize',
    pull_request: {
      number: 5,
      title: 'A change',
      state: 'open',
      updated_at: '2026-01-02T03:04:05Z',
      user: { login: 'grace' },
      head: { ref: 'change', sha: SHA, repo: { full_name: 'ada/shop' }, ...head },
      base: { repo: { full_name: 'ada/shop' } },
      ...change,
    },
  };
}

function gitlab(change: object = {}) {
  return {
    project: { path_with_namespace: 'group/sub/shop' },
    object_attributes: {
      iid: 5,
      title: 'A change',
      state: 'opened',
      updated_at: '2026-01-02 03:04:05 UTC',
      author_id: 7,
      source_project_id: 1,
      target_project_id: 1,
      last_commit: { id: SHA },
      ...change,
    },
  };
}

type From = [event: string, isGitHub: boolean];
const GITHUB: From = ['pull_request', true];
const GITEA: From = ['pull_request', false];
const SYNC: From = ['pull_request_sync', false];
const GITLAB: From = ['Merge Request Hook', false];

function pullOf([event, isGitHub]: From, payload: object) {
  return readPull(event, isGitHub, () => payload);
}

const EXPECTED = {
  repository: 'ada/shop',
  number: 5,
  title: 'A change',
  author: 'grace',
  sha: SHA,
  is_open: true,
  is_inside: true,
  changed_at: Date.UTC(2026, 0, 2, 3, 4, 5),
};

test('a pull request is read in each format', () => {
  const member = common({ author_association: 'MEMBER' });
  assert.deepEqual(pullOf(GITHUB, member), { ...EXPECTED, host: 'github', is_member: true });
  for (const headers of [GITEA, SYNC])
    assert.deepEqual(pullOf(headers, common()), { ...EXPECTED, host: 'gitea', is_member: null });
  const merge = { ...EXPECTED, repository: 'group/sub/shop', author: '7' };
  assert.deepEqual(pullOf(GITLAB, gitlab()), { ...merge, host: 'gitlab', is_member: null });
});

test('who is outside and what is closed is told apart', () => {
  for (const [association, isMember] of [
    ['OWNER', true],
    ['COLLABORATOR', true],
    ['CONTRIBUTOR', null],
    ['FIRST_TIME_CONTRIBUTOR', null],
    ['NONE', null],
    ['', null],
  ] as const)
    assert.equal(pullOf(GITHUB, common({ author_association: association }))!.is_member, isMember);
  const forked = { repo: { full_name: 'mallory/shop' } };
  assert.equal(pullOf(GITHUB, common({}, forked))!.is_inside, false);
  assert.equal(pullOf(GITHUB, common({}, { repo: null }))!.is_inside, false);
  assert.equal(pullOf(GITLAB, gitlab({ source_project_id: 2 }))!.is_inside, false);
  assert.equal(pullOf(GITLAB, gitlab({ source_project_id: null }))!.is_inside, false);
  assert.equal(pullOf(GITHUB, common({ state: 'closed' }))!.is_open, false);
  for (const state of ['closed', 'merged']) assert.equal(pullOf(GITLAB, gitlab({ state }))!.is_open, false);
});

test('a pull request of AGit is from outside, because every reader of the repository can push one', () => {
  const agit = { ref: 'refs/pull/5/head' };
  assert.equal(pullOf(GITEA, common({}, agit))!.is_inside, false);
  assert.equal(pullOf(SYNC, common({ flow: 1 }, agit))!.is_inside, false);
  assert.equal(pullOf(GITEA, common({ flow: 1 }))!.is_inside, false);
  assert.equal(pullOf(GITEA, common({ flow: 0 }))!.is_inside, true);
});

test('what is no pull request, or in no known format, is none', () => {
  assert.equal(pullOf(['issue_comment', true], common()), null);
  assert.equal(pullOf(['constructor', true], common()), null);
  const wrong = [
    common({ number: -1 }),
    common({ number: '5' }),
    common({ state: 'x' }),
    common({ updated_at: 'soon' }),
    common({}, { sha: '--upload-pack=id' }),
    common({}, { sha: SHA.toUpperCase() }),
    common({}, { ref: undefined }),
    { pull_request: null },
    {},
  ];
  for (const payload of wrong) assert.equal(pullOf(GITHUB, payload), null, JSON.stringify(payload));
  assert.equal(pullOf(GITLAB, gitlab({ last_commit: null })), null);
});

test('a long title is cut', () => {
  const pull = pullOf(GITHUB, common({ title: 'x'.repeat(10_000) }));
  assert.ok(pull!.title.length <= 200);
});
