// Rate limits of the app at the edge.
import { useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { type Limits as LimitsSet, limitsModel, rpmOf } from '../../models/settings.ts';
import { Button } from '../../parts/controls/button.tsx';
import { TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { exactCount } from '../../parts/format.ts';
import { useModel } from '../../parts/model.ts';
import { Loaded } from '../../parts/status/states.tsx';
import { toast } from '../../parts/status/toast.tsx';

export default function Limits({ app }: { app: string }) {
  const model = useModel(() => limitsModel(app));
  return (
    <>
      <Head
        title="Limits"
        about="Maximum requests per minute. Cellar answers more requests with 429 and the time to retry; they do not reach the app."
      />
      <div class="panel">
        <Loaded of={model.limits}>
          {(limits) => (
            <Form
              key={`${limits.clientRpm} ${limits.appRpm}`}
              limits={limits}
              save={async (change) => {
                await model.set(change);
                toast('The limits are in effect now');
              }}
            />
          )}
        </Loaded>
      </div>
    </>
  );
}

function Form({
  limits,
  save,
}: {
  limits: LimitsSet;
  save: (change: Pick<LimitsSet, 'clientRpm' | 'appRpm'>) => Promise<void>;
}) {
  const [client, setClient] = useState(limits.clientRpm?.toString() ?? '');
  const [all, setAll] = useState(limits.appRpm?.toString() ?? '');
  const [clientRpm, appRpm] = [rpmOf(client), rpmOf(all)];
  const isChanged = clientRpm !== limits.clientRpm || appRpm !== limits.appRpm;
  const { busy, onSubmit } = useSubmit(() => save({ clientRpm: clientRpm!, appRpm: appRpm! }));
  const wrong = 'A whole number up to 10 000 000; 0 for no limit.';
  const isRight = clientRpm !== undefined && appRpm !== undefined;
  return (
    <form class="body stack form" onSubmit={onSubmit}>
      <TextField
        label="From one visitor"
        name="clientRpm"
        inputMode="numeric"
        placeholder={said(limits.defaults.clientRpm)}
        value={client}
        onValue={setClient}
        wrong={clientRpm === undefined ? wrong : null}
        hint={`A visitor is one IPv4 address or one IPv6 /64. Empty: the default of this machine, ${said(limits.defaults.clientRpm)}. 0: no limit.`}
      />
      <TextField
        label="From all visitors together"
        name="appRpm"
        inputMode="numeric"
        placeholder={said(limits.defaults.appRpm)}
        value={all}
        onValue={setAll}
        wrong={appRpm === undefined ? wrong : null}
        hint={`Empty: the default of this machine, ${said(limits.defaults.appRpm)}. 0: no limit.`}
      />
      <div>
        <Button needs="admin" look="primary" type="submit" disabled={busy || !isChanged || !isRight}>
          Set these limits
        </Button>
      </div>
    </form>
  );
}

function said(rpm: number): string {
  return rpm === 0 ? 'no limit' : `${exactCount(rpm)} a minute`;
}
