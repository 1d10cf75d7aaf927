// The settings that Cellar was started with, and their sources.
import { computed } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { Head } from '../../layout/head.tsx';
import { type Setting, settingsModel } from '../../models/machine.ts';
import { Search } from '../../parts/controls/field.tsx';
import { useMade, useModel } from '../../parts/model.ts';
import { Empty, Loaded } from '../../parts/status/states.tsx';
import { Badge } from '../../parts/status/status.tsx';
import { queryOf, setQuery } from '../../router.ts';

export default function MachineSettings() {
  const { settings } = useModel(settingsModel);
  const shown = useMade(() =>
    computed(() => {
      const asked = queryOf('q').trim().toLowerCase();
      return (settings.data.value ?? []).filter(({ name, meaning }) =>
        `${name} ${meaning}`.toLowerCase().includes(asked),
      );
    }),
  );
  return (
    <>
      <Head
        title="Settings of the machine"
        about="The current settings. They are set in the environment of Cellar, and read when Cellar starts."
      >
        <Search label="Find a setting" value={queryOf('q')} onValue={(q) => setQuery({ q })} />
      </Head>
      <div class="panel">
        <Loaded of={settings}>
          {() =>
            shown.value.length === 0 ? (
              <Empty title="No such setting" />
            ) : (
              <ul>
                {shown.value.map((setting) => (
                  <OneSetting key={setting.name} {...{ setting }} />
                ))}
              </ul>
            )
          }
        </Loaded>
      </div>
    </>
  );
}

function OneSetting({
  setting: { name, value, default: otherwise, from, secret, meaning },
}: {
  setting: Setting;
}) {
  const isSet = from === 'environment';
  return (
    <li class="setting">
      <div class="row apart">
        <code class="strong">{name}</code>
        {isSet ? <Badge look="accent">from the environment</Badge> : <Badge>by default</Badge>}
      </div>
      <p class="value">
        {secret ? (
          <span class="muted">{isSet ? 'Set, and not shown.' : 'Not set.'}</span>
        ) : value === '' ? (
          <span class="muted">empty</span>
        ) : (
          <code>{value}</code>
        )}
        {isSet && !secret && (
          <span class="muted">, by default {otherwise === '' ? 'empty' : <code>{otherwise}</code>}</span>
        )}
      </p>
      <p class="muted">{withCode(meaning)}</p>
    </li>
  );
}

/** Renders the back-quoted parts of a text as code. */
function withCode(text: string): ComponentChildren[] {
  return text
    .split(/(`[^`]+`)/)
    .map((part, i) => (i % 2 ? <code key={part + i}>{part.slice(1, -1)}</code> : part));
}
