// Status codes of failed telemetry queries.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCodes } from '../../handlers/contract/errors.ts';
import type { Call } from '../../runtime/control/host-call.ts';
import { type TelemetryOptions, telemetryRoutes } from '../../runtime/control/routes/telemetry-routes.ts';
import { TelemetryError } from '../../runtime/telemetry/questions.ts';

for (const [thrown, code] of [
  ['error_not_found', 'error_not_found'],
  [null, 'host_unavailable'],
] as const) {
  test(`a query that fails with ${thrown} is answered with the status of ${code}`, async () => {
    const ask = () => Promise.reject(new TelemetryError(thrown, 'no'));
    const routes = telemetryRoutes({ telemetry: { ask } } as unknown as TelemetryOptions);
    const request = { iterator: () => [Buffer.from('{}')] };
    const call = { words: ['a'], request } as unknown as Call;
    const answer = Promise.resolve(routes['POST /apps/:id/telemetry/metrics/version'](call));
    await assert.rejects(answer, { status: errorCodes[code].status, code });
  });
}
