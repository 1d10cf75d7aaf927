// Generates random programs: lists of actions on one app, each with its start time.
import * as fc from 'fast-check';

const CALLS = ['sleep', 'stop', 'start'] as const;
export const KILLS = ['kill app', 'kill control plane', 'kill host'] as const;
export type ApiCall = (typeof CALLS)[number];
type Kill = (typeof KILLS)[number];

/** An action, started `after` ms from the beginning of its program. */
export type Action = { after: number } & (
  | { what: 'request'; ms: number }
  | { what: 'wake hop' | 'push' | ApiCall | Kill }
);
/** A list of actions. Each one starts at its time, even if earlier actions are still running. */
export type Program = Action[];

const after = fc.integer({ min: 0, max: 500 });
const one = <What extends Exclude<Action['what'], 'request'>>(...what: What[]) =>
  fc.record({ what: fc.constantFrom(...what), after });
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.record({ what: fc.constant('request' as const), after, ms: fc.constantFrom(0, 0, 300) }),
  },
  { weight: 25, arbitrary: one(...CALLS) },
  { weight: 5, arbitrary: one('wake hop') },
  { weight: 5, arbitrary: one('push') },
  { weight: 5, arbitrary: one('kill app') },
  { weight: 5, arbitrary: one('kill control plane') },
  { weight: 1, arbitrary: one('kill host') },
);
export const programs: fc.Arbitrary<Program> = fc.array(action, { minLength: 4, maxLength: 12 }).filter(
  // At most one push, because two pushes at once would only test git. At most one kill of the host.
  (program) => ['push', 'kill host'].every((name) => program.filter(({ what }) => what === name).length <= 1),
);
