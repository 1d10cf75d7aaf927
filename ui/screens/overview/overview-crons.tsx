// The crons on an app's overview: next run, last run, and a button to run it now.
import type { OverviewModel } from '../../models/telemetry/overview.ts';
import { Button, Link } from '../../parts/controls/button.tsx';
import { duration } from '../../parts/format.ts';
import { IconPlay } from '../../parts/icons.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';

/** Renders nothing for an app without crons. */
export function Crons({ model, slug }: { model: OverviewModel; slug: string }) {
  const crons = model.crons.data.value ?? [];
  if (crons.length === 0) return null;
  const run = async (cron: string) => {
    const { outcome, error } = await model.runCron(cron);
    if (outcome === 'failed') throw new Error(`The cron failed: ${error ?? 'its error is in the log'}`);
    toast(outcome === 'ok' ? 'The cron has run' : 'The cron is still running; its result is shown here');
  };
  return (
    <section class="panel" aria-labelledby="crons">
      <header>
        <h2 id="crons">Crons</h2>
      </header>
      <ul class="lines crons">
        {crons.map(({ cron, next_at, last_run: last }) => (
          <li key={cron} data-row>
            <code class="nowrap">{cron}</code>
            <span class="muted small cut grow">
              {last === null ? (
                'has not run yet'
              ) : (
                <>
                  {last.outcome === 'ok' ? 'ran' : <b>failed</b>} <Time at={last.at} />,{' '}
                  {duration(last.duration_ms)}
                  {last.trigger === 'manual' && ', by hand'}
                  {last.trace_id !== null && (
                    <>
                      {': '}
                      <Link to={{ name: 'logs', app: slug }} query={{ trace: last.trace_id }}>
                        its log
                      </Link>
                    </>
                  )}
                </>
              )}
            </span>
            <span class="muted small nowrap">
              {next_at === null ? (
                'not due'
              ) : (
                <>
                  next <Time at={next_at} />
                </>
              )}
            </span>
            <Button needs="push" short onClick={() => run(cron)}>
              <IconPlay /> Run now
            </Button>
          </li>
        ))}
      </ul>
    </section>
  );
}
