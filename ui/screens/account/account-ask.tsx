// Dialog that asks for input before an action on the account.
import { useState } from 'preact/hooks';
import { PASSWORD_MAX } from '../../../handlers/contract/people/sign-in.ts';
import { FormDialog } from '../../parts/controls/dialog.tsx';
import { TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';

/** Asks for one line of text. */
export function Ask({
  title,
  label,
  button,
  start = '',
  type = 'text',
  run,
  onClose,
}: {
  title: string;
  label: string;
  button: string;
  start?: string;
  type?: 'text' | 'password';
  run: (text: string) => Promise<void>;
  onClose: () => void;
}) {
  const [text, setText] = useState(start);
  const { busy, onSubmit } = useSubmit(() => run(text));
  return (
    <FormDialog
      title={title}
      action={button}
      disabled={busy || text.trim() === ''}
      {...{ onSubmit, onClose }}
    >
      <TextField
        label={label}
        type={type}
        value={text}
        onValue={setText}
        required
        maxLength={PASSWORD_MAX}
        autocomplete={type === 'password' ? 'current-password' : 'off'}
      />
    </FormDialog>
  );
}
