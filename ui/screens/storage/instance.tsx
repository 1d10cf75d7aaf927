// An instance of a Workflow: its parameters, steps and output.
import { useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { written } from '../../models/storage/values.ts';
import { instanceModel, type Step, type Verb, verbsOf } from '../../models/storage/workflows.ts';
import { Button } from '../../parts/controls/button.tsx';
import { JsonDialog } from '../../parts/controls/json-dialog.tsx';
import { duration } from '../../parts/format.ts';
import { useModel } from '../../parts/model.ts';
import { InstanceBadge } from '../../parts/status/instance-status.tsx';
import { Loaded, Notice } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { open } from '../../router.ts';

const WORDS: Record<Verb, string> = {
  pause: 'Pause',
  resume: 'Resume',
  restart: 'Restart',
  terminate: 'Terminate',
};

export default function InstanceScreen({
  app,
  workflow,
  instance,
}: {
  app: string;
  workflow: string;
  instance: string;
}) {
  const model = useModel(() => instanceModel(app, workflow, instance));
  const [sending, setSending] = useState(false);
  const known = model.found.data.value;
  const hasEnded = known !== null && verbsOf(known.status).length === 1;
  return (
    <>
      <Head title={instance} {...(known && { status: <InstanceBadge of={known.status} /> })}>
        {known &&
          verbsOf(known.status).map((verb) => (
            <Button key={verb} needs="push" onClick={() => model.act(verb)}>
              {WORDS[verb]}
            </Button>
          ))}
        {known && !hasEnded && (
          <Button needs="push" onClick={() => setSending(true)}>
            Send an event
          </Button>
        )}
        {known && hasEnded && (
          <Button
            needs="push"
            look="danger"
            onClick={async () => {
              await model.delete();
              toast(`${instance} is deleted`);
              open({ name: 'workflow', app, workflow });
            }}
          >
            Delete
          </Button>
        )}
      </Head>
      <Loaded of={model.found}>
        {({ params, output, error, steps, steps_left_out, created_at, changed_at }) => (
          <div class="stack">
            <section class="panel" aria-label="The instance">
              <ul class="kept">
                <Value name="Parameters" value={params} />
                {error ? (
                  <li>
                    <p class="strong">Error</p>
                    <Notice look="danger">
                      {error.name}: {error.message}
                    </Notice>
                  </li>
                ) : (
                  output !== null && <Value name="Output" value={output} />
                )}
                <li class="muted small">
                  created <Time at={created_at} />, last event <Time at={changed_at} />
                </li>
              </ul>
            </section>
            <section class="panel" aria-labelledby="steps">
              <header>
                <h2 id="steps">Steps</h2>
              </header>
              {steps_left_out > 0 && <p class="muted">The first {steps_left_out} are left out.</p>}
              <ul class="kept">
                {steps.length === 0 && <li class="muted">It has not reached a step.</li>}
                {steps.map((step) => (
                  <StepItem key={`${step.type} ${step.count} ${step.name}`} step={step} />
                ))}
              </ul>
            </section>
          </div>
        )}
      </Loaded>
      {sending && (
        <JsonDialog
          title="Send an event"
          name={{ label: 'Type', required: true }}
          value={{ label: 'Payload, as JSON', first: 'null' }}
          verb="Send it"
          submit={async (type, payload) => {
            await model.send(type, payload);
            toast(`${type} is sent`);
            setSending(false);
          }}
          onClose={() => setSending(false)}
        />
      )}
    </>
  );
}

function Value({ name, value }: { name: string; value: unknown }) {
  return (
    <li>
      <p class="strong">{name}</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls sideways, by keyboard too */}
      <pre tabIndex={0}>{written(value)}</pre>
    </li>
  );
}

const KINDS: Record<Step['type'], string> = { do: 'step', sleep: 'sleep', waitForEvent: 'event' };

function StepItem({ step }: { step: Step }) {
  const { name, count, type, status, attempts, started_at, ended_at, due_at, error, output } = step;
  const took = started_at && ended_at ? Date.parse(ended_at) - Date.parse(started_at) : null;
  return (
    <li>
      <p class="row apart">
        <span class="row">
          <code class="strong">{count === 1 ? name : `${name} (${count})`}</code>
          <span class="muted small">{KINDS[type]}</span>
          <InstanceBadge of={status} />
        </span>
        <span class="muted small">
          {attempts !== null && attempts > 1 && `${attempts} attempts, `}
          {due_at !== null ? (
            <>
              due <Time at={due_at} />
            </>
          ) : took !== null ? (
            duration(took)
          ) : (
            <Time at={started_at} />
          )}
        </span>
      </p>
      {error && (
        <Notice look="danger">
          {error.name}: {error.message}
        </Notice>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls sideways, by keyboard too */}
      {output !== null && <pre tabIndex={0}>{written(output)}</pre>}
    </li>
  );
}
