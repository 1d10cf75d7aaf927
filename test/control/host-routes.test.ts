// The calls of the handlers to the host: both sides have all of them, and no other. The host's routes are keyed by the list, so
// that the compiler sees to theirs.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

const text = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const CALL = /'((?:GET|PUT|POST|DELETE) \/[\w/:-]+)'/g;
const callsIn = (...paths: string[]): string[] => [
  ...new Set(paths.flatMap((path) => [...text(path).matchAll(CALL)].map(([, call]) => call!))),
];

const declared = callsIn('handlers/contract/host/host-routes.ts').toSorted();

test('the list is found', () => {
  assert.ok(declared.length > 10);
});

test('the client makes every call of the list, and no other', () => {
  const files = ['handlers/host/host-client.ts', ...globSync('handlers/host/client/*.ts')];
  assert.deepEqual(callsIn(...files).toSorted(), declared);
});

test('the host answers every call of the list, and no other', () => {
  const files = globSync('runtime/control/{,routes/}*-{routes,service}.ts', {
    exclude: ['**/telemetry-routes.ts'],
  });
  // Most of telemetry's are made from a list of their own.
  const telemetry = callsIn('runtime/control/routes/telemetry-routes.ts').filter((call) =>
    declared.includes(call),
  );
  const routes = [...callsIn(...files), ...telemetry];
  assert.deepEqual(routes.toSorted(), declared);
});
