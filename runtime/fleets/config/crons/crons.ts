// The crons of a cell (an app's workerd process). workerd's own service supports crons by minutes. Crons with a field for
// seconds have a service of Cellar.
import {
  bundledWorker,
  CALLS_HANDLERS,
  CRON_KEY,
  CRON_SECONDS_KEY,
  SERVICE_DATE,
} from '../bundled-services.ts';
import { type CapnpValue, embed, type Fields } from '../capnp.ts';
import { type CellModule, textOf } from '../texts.ts';

/** The module that schedules crons with a field for seconds. It imports workerd's `cron.js`. */
export const CRON_SECONDS: CellModule = {
  name: 'cron-seconds.js',
  text: textOf('./crons/cron-seconds-worker.js'),
};
const SECONDS_SERVICE = 'cron-seconds-service';

/** Whether a cron has a field for seconds. */
export function isBySecond(cron: string): boolean {
  return cron.split(/\s+/).length === 6;
}

/** Returns the unique keys of the namespaces that hold the schedules of `crons`. */
export function cronKeys(crons: string[]): string[] {
  return [
    ...(crons.some((cron) => !isBySecond(cron)) ? [CRON_KEY] : []),
    ...(crons.some(isBySecond) ? [CRON_SECONDS_KEY] : []),
  ];
}

/**
 * Returns the services that call the Worker on schedule. A run ends after ten minutes at most. A failed run is retried up to
 * six times. Each cron has its own schedule, so it never waits for the run of another cron. The name of the schedule, and of
 * its binding, is the cron's expression, so a changed cron starts a new schedule.
 * @param target the service whose `scheduled()` is called
 * @param bySecond whether a field for seconds is allowed. If not, workerd refuses a config with such a cron
 */
export function cronServices(crons: string[], target: string, bySecond: boolean): Fields[] {
  const seconds = bySecond ? crons.filter(isBySecond) : [];
  const minutes = crons.filter((cron) => !seconds.includes(cron));
  const targets = (of: string[]) => of.map((cron) => ({ name: cron, service: target }));
  return [
    ...(minutes.length === 0
      ? []
      : [
          {
            name: 'cron-service',
            worker: bundledWorker(
              'cron.js',
              CRON_KEY,
              [
                { name: 'SCHEDULE', durableObjectNamespace: CRON_KEY },
                {
                  name: 'CRONS',
                  json: JSON.stringify(Object.fromEntries(minutes.map((cron) => [cron, [cron]]))),
                },
                ...targets(minutes),
              ],
              [CALLS_HANDLERS],
            ),
          },
        ]),
    ...(seconds.length === 0
      ? []
      : [
          {
            name: SECONDS_SERVICE,
            worker: {
              modules: [
                { name: CRON_SECONDS.name, esModule: embed(CRON_SECONDS.name) },
                { name: 'cron.js', bundled: '/workerd/cron.js' },
              ],
              compatibilityDate: SERVICE_DATE,
              compatibilityFlags: [CALLS_HANDLERS],
              bindings: [{ name: 'SECONDS', json: JSON.stringify(seconds) }, ...targets(seconds)],
              durableObjectNamespaces: [
                { className: CRON_KEY, uniqueKey: CRON_SECONDS_KEY, enableSql: true },
              ],
              durableObjectStorage: { localDisk: 'do' },
            },
          },
          // workerd arms schedules only for a Worker whose main module is its own `cron.js`. The schedules are the objects
          // of the service above.
          {
            name: 'cron-seconds-start',
            worker: {
              modules: [{ name: 'cron.js', bundled: '/workerd/cron.js' }],
              compatibilityDate: SERVICE_DATE,
              compatibilityFlags: [CALLS_HANDLERS],
              bindings: startBindings(seconds, targets(seconds)),
            },
          },
        ]),
  ];
}

/**
 * Returns the bindings of `cron-seconds-start`. The crons are without seconds, because `cron.js` accepts only five fields.
 */
function startBindings(seconds: string[], targets: CapnpValue[]): CapnpValue[] {
  const withoutSeconds = seconds.map((cron) => [cron, [cron.split(/\s+/).slice(1).join(' ')]]);
  return [
    { name: 'SCHEDULE', durableObjectNamespace: { className: CRON_KEY, serviceName: SECONDS_SERVICE } },
    { name: 'CRONS', json: JSON.stringify(Object.fromEntries(withoutSeconds)) },
    ...targets,
  ];
}
