// The calls of the handlers to the host. The compiler checks that each call has a route.
// This test checks that the handlers use each route.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

const text = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const CALL = /['`]((?:GET|PUT|POST|PATCH|DELETE) \/[\w/:-]+)['`]/g;
const callsIn = (...paths: string[]): string[] => [
  ...new Set(paths.flatMap((path) => [...text(path).matchAll(CALL)].map(([, call]) => call!))),
];

test('the handlers make every call that the host answers', () => {
  const answered = callsIn(...globSync('runtime/control/{,routes/}*-{routes,service}.ts'));
  const exclude = ['handlers/contract/**', 'handlers/host/call-rules.ts'];
  const made = new Set(callsIn(...globSync('handlers/**/*.ts', { exclude })));
  // The handlers make the names of these calls with a template literal, which `CALL` does not match.
  for (const name of ['devices', 'paths', 'refs', 'countries']) made.add(`POST /apps/:id/telemetry/${name}`);
  assert.ok(answered.length > 50);
  assert.deepEqual(
    answered.filter((call) => !made.has(call)),
    [],
  );
});
