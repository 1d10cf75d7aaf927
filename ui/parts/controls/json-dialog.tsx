// Dialog for a name and a JSON value.
import { useState } from 'preact/hooks';
import { whyNoJson } from '../../models/storage/values.ts';
import { FormDialog } from './dialog.tsx';
import { TextArea, TextField } from './field.tsx';
import { useSubmit } from './submit.ts';

/** @param props.name attributes of the name field @param props.submit called with the name and the parsed value */
export function JsonDialog({
  title,
  name,
  value: { label, first },
  verb,
  submit,
  onClose,
}: {
  title: string;
  name: Omit<Parameters<typeof TextField>[0], 'value' | 'onValue'>;
  value: { label: string; first: string };
  verb: string;
  submit: (name: string, value: unknown) => Promise<unknown>;
  onClose: () => void;
}) {
  const [named, setNamed] = useState('');
  const [text, setText] = useState(first);
  const wrong = whyNoJson(text);
  const { busy, onSubmit } = useSubmit(async () => {
    await submit(named, JSON.parse(text));
  });
  return (
    <FormDialog
      title={title}
      action={verb}
      disabled={busy || wrong !== null || (name.required === true && named === '')}
      {...{ onSubmit, onClose }}
    >
      <TextField
        {...name}
        value={named}
        onValue={setNamed}
        maxLength={100}
        spellcheck={false}
        autocomplete="off"
      />
      <TextArea label={label} value={text} onValue={setText} wrong={wrong} rows={6} spellcheck={false} />
    </FormDialog>
  );
}
