// The contract against a handwritten list of the specification's routes and methods.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { slug as slugSchema } from '../../../handlers/contract/apps/apps.ts';
import { reservedSlugs } from '../../../handlers/contract/apps/slug.ts';
import { type ErrorCode, errorCodes } from '../../../handlers/contract/errors.ts';
import { operations } from '../../../handlers/contract/index.ts';
import { type Operation, pathNames } from '../../../handlers/contract/operation.ts';
import { otherRoutes } from '../../../handlers/contract/other-routes.ts';

const app = '/v1/apps/{id}';
/** Method, path and RPC name of every REST route. */
const routes = [
  'GET /v1/apps apps.list',
  'POST /v1/apps apps.create',
  `GET ${app} apps.get`,
  `PATCH ${app} apps.update`,
  `DELETE ${app} apps.delete`,
  'GET /v1/deleted-apps apps.list_deleted',
  'POST /v1/deleted-apps/{app}/undelete apps.undelete',
  `POST ${app}/move apps.move`,
  `POST ${app}/rename apps.rename`,
  `POST ${app}/sleep apps.sleep`,
  `GET ${app}/deploys deploys.list`,
  `GET ${app}/deploys/stream deploys.stream`,
  `GET ${app}/deploys/{deploy_id}/log deploys.log`,
  `POST ${app}/rollback deploys.rollback`,
  `GET ${app}/split split.get`,
  `POST ${app}/split split.set`,
  `POST ${app}/git-remote git.remote`,
  `GET ${app}/env env.list`,
  `POST ${app}/env env.set`,
  `DELETE ${app}/env/{name} env.delete`,
  `GET ${app}/bindings bindings.list`,
  `GET ${app}/domains domains.list`,
  `POST ${app}/domains domains.add`,
  `DELETE ${app}/domains/{hostname} domains.remove`,
  `GET ${app}/mail/routes mail.routes.list`,
  `POST ${app}/mail/routes mail.routes.set`,
  `DELETE ${app}/mail/routes/{address} mail.routes.delete`,
  `GET ${app}/tcp/ports tcp.ports.list`,
  `POST ${app}/tcp/ports tcp.ports.set`,
  `DELETE ${app}/tcp/ports/{port} tcp.ports.delete`,
  `GET ${app}/tree source.tree`,
  `GET ${app}/blob/{*path} source.blob`,
  `GET ${app}/diff source.diff`,
  `POST ${app}/source/commit source.commit`,
  `GET ${app}/source source.get`,
  `POST ${app}/source source.connect`,
  `DELETE ${app}/source source.disconnect`,
  `POST ${app}/source/sync source.sync`,
  `POST ${app}/source/approve source.approve`,
  `GET ${app}/storage storage.overview`,
  `GET ${app}/storage/d1/{database_id} storage.d1.get`,
  `POST ${app}/storage/d1/{database_id}/write storage.d1.write`,
  `GET ${app}/storage/do/{class_name} storage.do.get`,
  `GET ${app}/storage/r2/{bucket} storage.r2.list`,
  `GET ${app}/storage/r2/{bucket}/object storage.r2.get`,
  `DELETE ${app}/storage/r2/{bucket}/object storage.r2.delete`,
  `GET ${app}/storage/r2/{bucket}/raw storage.r2.raw`,
  `GET ${app}/metrics metrics.get`,
  `GET ${app}/metrics/version metrics.version`,
  `GET ${app}/devices devices.list`,
  `GET ${app}/paths paths.list`,
  `GET ${app}/refs refs.list`,
  `GET ${app}/countries countries.list`,
  `GET ${app}/spans spans.list`,
  `GET ${app}/requests requests.list`,
  `GET ${app}/traces/{trace_id} traces.get`,
  `GET ${app}/logs logs.list`,
  `GET ${app}/logs/stream logs.stream`,
  `GET ${app}/errors/stream errors.stream`,
  `GET ${app}/maintenance maintenance.get`,
  `PATCH ${app}/maintenance maintenance.set`,
  `GET ${app}/events events.list`,
  `POST ${app}/events events.log`,
  `GET ${app}/events/stream events.stream`,
  `GET ${app}/events/channels events.channels`,
  `POST ${app}/identify users.identify`,
  `GET ${app}/users/{user_id}/props users.props`,
  `GET ${app}/insights insights.list`,
  `POST ${app}/insights insights.set`,
  'GET /v1/admin/stats admin.stats',
  'POST /v1/admin/snapshot admin.snapshot',
  'GET /v1/audit audit.list',
  'GET /v1/hosts hosts.list',
  'POST /v1/hosts/{host}/drain hosts.drain',
  'DELETE /v1/hosts/{host} hosts.remove',
];
const rpcOnly = [
  'admin.restore',
  'admin.settings',
  'snapshots.list',
  'snapshots.verify',
  'domains.check',
  'users.list',
  'apps.get_by_slug',
  'apps.figures',
  'apps.overview',
  'apps.templates',
  'dispatch.list',
  'dispatch.delete',
  'source.import',
  'source.template',
  'deploys.get',
  'deploys.create',
  'deploys.begin_upload',
  'deploys.upload_files',
  'deploys.finish_upload',
  'deploys.cancel',
  'alerts.list',
  'alerts.set',
  'alerts.delete',
  'alerts.test',
  'limits.get',
  'limits.set',
  'builds.get',
  'builds.set',
  'previews.get',
  'previews.set',
  'previews.list',
  'previews.log',
  'previews.promote',
  'previews.delete',
  'errors.list',
  'errors.get',
  'errors.set_status',
  'storage.d1.export',
  'storage.d1.import',
  'storage.vectorize.read',
  'storage.vectorize.write',
  'storage.kv.list',
  'storage.kv.get',
  'storage.kv.put',
  'storage.kv.delete',
  'crons.list',
  'datapoints.list',
  'crons.run',
  'workflows.list',
  'workflows.instances.list',
  'workflows.instances.get',
  'workflows.instances.create',
  'workflows.instances.pause',
  'workflows.instances.resume',
  'workflows.instances.terminate',
  'workflows.instances.restart',
  'workflows.instances.send_event',
  'workflows.instances.delete',
  'secrets.list',
  'secrets.set',
  'secrets.delete',
  'vars.list',
  'vars.set',
  'vars.unset',
  'storage.r2.put',
  'storage.r2.create_upload',
  'storage.r2.complete_upload',
  'storage.r2.abort_upload',
  'accounts.create',
  'accounts.list',
  'accounts.me',
  'accounts.rename',
  'accounts.set_max_apps',
  'accounts.delete',
  'keys.create',
  'keys.list',
  'keys.revoke',
  'collaborators.list',
  'collaborators.set',
  'collaborators.remove',
  'collaborators.invite',
  'collaborators.invites',
  'collaborators.revoke_invite',
  'invites.create',
  'invites.list',
  'invites.revoke',
];
/** Routes that no operation has: `otherRoutes` declares them. */
const outside = [
  'GET /health',
  'GET /v1/audit/export',
  'GET /metrics',
  'GET /ready',
  'GET /v1/git/{slug}/info/refs',
  'POST /v1/git/{slug}/git-upload-pack',
  'POST /v1/hooks/{id}',
  'POST /v1/git/{slug}/git-receive-pack',
  'PUT /v1/apps/{id}/storage/r2/{bucket}/raw',
  'GET /v1/edge/tls-ask',
  'GET /v1/apps/{id}/storage/copy',
  'GET /v1/edge/wake',
  'POST /rpc',
  'GET /docs',
  'GET /openapi.json',
  'POST /mcp',
];

const declared: readonly Operation[] = operations;
const specPath = (path: string) => path.replace(/:(\w+)\+/g, '{*$1}').replace(/:(\w+)/g, '{$1}');

test('the contract has exactly the routes and methods of the specification', () => {
  const withPath = declared.filter(({ path }) => path !== null);
  assert.deepEqual(
    withPath.map(({ method, path, name }) => `${method} ${specPath(path!)} ${name}`).sort(),
    routes.toSorted(),
  );
  assert.deepEqual(otherRoutes.map(({ method, path }) => `${method} ${path}`).sort(), outside.toSorted());
  const without = declared.filter(({ path }) => path === null);
  assert.deepEqual(without.map(({ name }) => name).sort(), rpcOnly.toSorted());
});

test('every operation takes the names of its path, refuses unknown fields and lists known error codes', () => {
  for (const { name, path, input, errors } of declared) {
    for (const param of pathNames(path ?? '')) assert.ok(param in input.shape, `${name} ${param}`);
    const unknown = input.safeParse({ surely_unknown: 1 }).error?.issues ?? [];
    assert.ok(
      unknown.some(({ code }) => code === 'unrecognized_keys'),
      `${name} is strict`,
    );
    for (const code of errors) assert.ok(code in errorCodes, `${name} ${code}`);
  }
});

test('every list takes limit and cursor, and a deletion answers nothing', () => {
  for (const { name, input, status, output } of declared) {
    if (status === 204) assert.ok(output.safeParse(null).success, name);
    const isList = output.safeParse({ items: [], next_cursor: null }).success;
    if (!isList || name === 'metrics.get') continue;
    assert.ok('limit' in input.shape && 'cursor' in input.shape, name);
  }
});

test('error codes have error statuses, and those of the specification have its statuses', () => {
  for (const { status } of Object.values(errorCodes)) assert.ok(status >= 400 && status < 600);
  const expected: [ErrorCode, number][] = [
    ['unauthorized', 401],
    ['app_not_found', 404],
    ['domain_taken', 409],
    ['transition_conflict', 409],
    ['rate_limited', 429],
    ['app_unavailable', 503],
    ['quota_exceeded', 403],
    ['idempotency_mismatch', 422],
  ];
  for (const [code, status] of expected) assert.equal(errorCodes[code].status, status, code);
});

test('slugs are DNS labels of 3 to 40 characters, and the platform keeps its own', () => {
  for (const slug of ['abc', 'a1-b2', '123', 'a'.repeat(40)])
    assert.equal(slugSchema.safeParse(slug).success, true, slug);
  for (const slug of [
    '',
    'ab',
    'a'.repeat(41),
    '-ab',
    'ab-',
    'aBc',
    'a.b',
    'a b',
    'ab\n',
    'xn--a',
    'a--b-c',
    ...reservedSlugs,
  ])
    assert.equal(slugSchema.safeParse(slug).success, false, slug);
  assert.equal(reservedSlugs.length, 13);
});
