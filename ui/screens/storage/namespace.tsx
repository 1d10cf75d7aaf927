// A KV namespace: its keys, and a key's value.
import { useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import {
  type KvKey,
  type KvValue,
  kvValueModel,
  namespaceModel,
  titleModel,
} from '../../models/storage/storage.ts';
import { bytesOf, hex, prettyJson, textIn } from '../../models/storage/values.ts';
import { Copy } from '../../parts/code/code.tsx';
import { Button, RemoveButton } from '../../parts/controls/button.tsx';
import { Dialog } from '../../parts/controls/dialog.tsx';
import { Search, TextArea, TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { bytes } from '../../parts/format.ts';
import { IconKey, IconPlus } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty, Loaded } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { Listed, remove } from '../../parts/tables/pages.tsx';
import { queryOf, setQuery } from '../../router.ts';

interface Props {
  app: string;
  namespace: string;
}

export default function Namespace(props: Props) {
  const { title } = useModel(() => titleModel(props.app, 'namespaces', props.namespace));
  const prefix = queryOf('prefix');
  const selected = queryOf('key');
  const [adding, setAdding] = useState(false);
  return (
    <>
      <Head title={title.data.value ?? 'KV namespace'}>
        <Search
          label="Keys that begin with …"
          value={prefix}
          onValue={(value) => setQuery({ prefix: value })}
        />
        <Button look="primary" onClick={() => setAdding(true)}>
          <IconPlus /> Add a key
        </Button>
      </Head>
      <Keys key={prefix} {...{ ...props, prefix, adding, selected }} close={() => setAdding(false)} />
    </>
  );
}

function Keys({
  app,
  namespace,
  prefix,
  adding,
  selected,
  close,
}: Props & { prefix: string; adding: boolean; selected: string; close: () => void }) {
  const model = useModel(() => namespaceModel(app, namespace, prefix));
  const { keys } = model;
  const drop = (item: KvKey) => {
    if (item.key === selected) setQuery({ key: '' });
    remove(keys, item, `${item.key} is deleted`, () => model.delete(item.key));
  };
  return (
    <div class="panel">
      <Listed
        of={keys}
        label="Keys"
        isSelected={({ key }) => key === selected}
        columns={[
          {
            name: 'Key',
            wide: true,
            cell: (item: KvKey) => (
              <button
                type="button"
                class="link mono cut"
                onClick={() => setQuery({ key: item.key }, { push: true })}
              >
                {item.key}
              </button>
            ),
          },
          {
            name: 'Expires',
            label: 'expires',
            cell: ({ expires_at }) => <Time at={expires_at} otherwise="never" />,
          },
          {
            name: 'Size',
            number: true,
            cell: (item) => (item.bytes === null ? 'over 64 KiB' : bytes(item.bytes)),
          },
          {
            name: 'What to do',
            silent: true,
            cell: (item) => <RemoveButton label={`Delete ${item.key}`} onClick={() => drop(item)} />,
          },
        ]}
        empty={
          <Empty title={prefix === '' ? 'No keys yet' : 'No key begins with this text'} icon={IconKey}>
            {prefix === '' && <p>Keys appear when the app puts them, or when you add one.</p>}
          </Empty>
        }
      />
      {adding && <Value {...{ model }} found={null} onClose={close} />}
      {selected !== '' && (
        <Selected
          key={selected}
          {...{ app, namespace, model }}
          name={selected}
          onClose={() => setQuery({ key: '' })}
        />
      )}
    </div>
  );
}

function Selected({
  app,
  namespace,
  name,
  model,
  onClose,
}: Props & { name: string; model: ReturnType<typeof namespaceModel>; onClose: () => void }) {
  const { value } = useModel(() => kvValueModel(app, namespace, name));
  if (value.data.value) return <Value {...{ model, onClose }} found={value.data.value} />;
  return (
    <Dialog title={name} onClose={onClose} large>
      <Loaded of={value}>{() => null}</Loaded>
    </Dialog>
  );
}

function Value({
  model,
  found,
  onClose,
}: {
  model: ReturnType<typeof namespaceModel>;
  found: KvValue | null;
  onClose: () => void;
}) {
  const kept = found && bytesOf(found.value_base64);
  const text = kept && textIn(kept);
  const [key, setKey] = useState(found?.key ?? '');
  const [value, setValue] = useState(text === null ? '' : (prettyJson(text) ?? text));
  const [expires, setExpires] = useState(found?.expires_at ? localTime(found.expires_at) : '');
  const [metadata, setMetadata] = useState(
    found?.metadata === null || found?.metadata === undefined ? '' : JSON.stringify(found.metadata),
  );
  const isBytes = kept !== null && text === null;
  const { busy, onSubmit } = useSubmit(async () => {
    const pretty = text === null ? null : prettyJson(text);
    // If the person did not change the indented JSON, writes the original text.
    const next = isBytes ? kept : new TextEncoder().encode(value === pretty ? text! : value);
    const until = expires === '' ? null : new Date(expires).toISOString();
    await model.put(key, next, until, metadata === '' ? null : JSON.parse(metadata));
    toast(`${key} is written`);
    onClose();
  });
  return (
    <Dialog title={found ? found.key : 'Add a key'} onClose={onClose} large>
      <form class="stack" onSubmit={onSubmit}>
        {!found && (
          <TextField
            label="Key"
            value={key}
            onValue={setKey}
            required
            maxLength={512}
            spellcheck={false}
            autocomplete="off"
          />
        )}
        {isBytes ? (
          <p>
            {bytes(kept.length)} that are not text: <code>{hex(kept, 32)}</code>
          </p>
        ) : (
          <TextArea
            label="Value"
            name="value_base64"
            value={value}
            onValue={setValue}
            rows={Math.min(18, Math.max(4, value.split('\n').length + 1))}
            spellcheck={false}
          />
        )}
        <div class="two">
          <TextField
            label="Expires"
            name="expires_at"
            type="datetime-local"
            value={expires}
            onValue={setExpires}
            hint="At least a minute ahead. Empty: never."
          />
          <TextField
            label="Metadata, as JSON"
            name="metadata"
            value={metadata}
            onValue={setMetadata}
            wrong={isJson(metadata) ? null : 'The text is not valid JSON.'}
            spellcheck={false}
            autocomplete="off"
          />
        </div>
        <footer>
          {text !== null && text !== undefined && <Copy text={text} label="Copy the value" />}
          <Button onClick={onClose}>Close</Button>
          <Button look="primary" type="submit" disabled={busy || key === '' || !isJson(metadata)}>
            {found ? 'Write this value' : 'Add the key'}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

function isJson(text: string): boolean {
  try {
    return text === '' || JSON.parse(text) !== undefined;
  } catch {
    return false;
  }
}

/** Returns the local time to the minute, in the format of `datetime-local` fields. */
function localTime(iso: string): string {
  const at = new Date(iso);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
