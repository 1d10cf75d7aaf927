// The model of the audit log: filters of the address, and texts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { detailsOf, exportUrl, filterOf, whoOf } from '../../../ui/models/account/audit.ts';

const of = (query: string) => {
  const search = new URLSearchParams(query);
  return filterOf((name) => search.get(name) ?? '');
};

test('the filter has what the address names, without what is empty or unknown', () => {
  assert.deepEqual(of('app= shop &operation=&via=mcp&outcome=refused&other=1'), {
    app: 'shop',
    via: 'mcp',
    outcome: 'refused',
  });
  assert.deepEqual(of('via=fax&outcome=maybe'), {});
});

test('the export has the same filter', () => {
  assert.equal(exportUrl({}), '/v1/audit/export');
  assert.equal(exportUrl({ app: 'a&b', via: 'ui' }), '/v1/audit/export?app=a%26b&via=ui');
});

test('an entry says who and what', () => {
  const operation = 'env.set';
  assert.equal(whoOf({ account: null, name: null, operation }), 'Runner token');
  assert.equal(whoOf({ account: null, name: null, operation: 'sign_in' }), 'Unknown');
  assert.equal(whoOf({ account: 'x', name: 'Ada', operation }), 'Ada');
  assert.equal(detailsOf({ details: { deploy_id: 'd1', role: 'push' } }), 'deploy id d1, role push');
});
