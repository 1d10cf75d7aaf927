// What one types into.
import type { ComponentChildren, PartialInputHTMLAttributes, Ref } from 'preact';
import { useId } from 'preact/hooks';
import { IconSearch } from '../icons.tsx';
import { clearFault, faultOf } from '../status/faults.ts';

interface FieldProps {
  label: string;
  /** What it is for, beneath it. */
  hint?: ComponentChildren;
  /** Why what is in it cannot be taken. */
  wrong?: string | null;
  /** The label is for screen readers alone. */
  unlabelled?: boolean;
}

function Field({
  id,
  label,
  hint,
  wrong,
  unlabelled,
  children,
}: FieldProps & { id: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <label for={id} class={unlabelled ? 'unseen' : undefined}>
        {label}
      </label>
      {children}
      {wrong ? (
        <p class="wrong" id={`${id}-hint`} role="alert">
          {wrong}
        </p>
      ) : (
        hint && (
          <p class="hint" id={`${id}-hint`}>
            {hint}
          </p>
        )
      )}
    </div>
  );
}

type Own<Element extends EventTarget> = FieldProps & {
  value: string;
  onValue: (value: string) => void;
  inputRef?: Ref<Element>;
  /** Its text is there again when the screen is: nobody is asked before the screen goes. */
  isKept?: boolean;
} & Pick<
    PartialInputHTMLAttributes<HTMLElement>,
    | 'autocomplete'
    | 'autofocus'
    | 'disabled'
    | 'inputMode'
    | 'max'
    | 'maxLength'
    | 'min'
    | 'minLength'
    | 'name'
    | 'onBlur'
    | 'onKeyDown'
    | 'onPaste'
    | 'pattern'
    | 'placeholder'
    | 'readOnly'
    | 'required'
    | 'spellcheck'
    | 'step'
    | 'title'
  >;

/** What a field of text is made of: what goes around it, and the attributes of the control. */
function useText<Element extends HTMLInputElement | HTMLTextAreaElement>({
  label,
  hint,
  wrong: given,
  unlabelled,
  value,
  onValue,
  inputRef,
  isKept,
  name,
  ...rest
}: Own<Element>) {
  const id = useId();
  const wrong = given ?? faultOf(id);
  return {
    field: { id, label, hint, wrong: wrong ?? null, unlabelled: unlabelled ?? false },
    control: {
      ...(rest as object),
      id,
      ref: inputRef ?? null,
      class: 'input',
      value,
      'data-kept': isKept || undefined,
      'aria-invalid': wrong ? true : undefined,
      'aria-describedby': wrong || hint ? `${id}-hint` : undefined,
      // As the API calls it, which names fields that it refuses.
      name: name ?? label.toLowerCase().replaceAll(' ', '_'),
      onInput: (event: { currentTarget: Element }) => {
        clearFault(id);
        onValue(event.currentTarget.value);
      },
    },
  };
}

/** One line of text. */
export function TextField(
  props: Own<HTMLInputElement> & {
    type?: 'text' | 'email' | 'password' | 'number' | 'url' | 'datetime-local';
  },
) {
  const { field, control } = useText(props);
  return (
    <Field {...field}>
      <input {...control} />
    </Field>
  );
}

/** Several lines of text. */
export function TextArea(props: Own<HTMLTextAreaElement> & { rows?: number }) {
  const { field, control } = useText(props);
  return (
    <Field {...field}>
      <textarea {...control} />
    </Field>
  );
}

/** One of a few. */
export function Select<Value extends string>({
  label,
  hint,
  unlabelled,
  value,
  onValue,
  options,
  disabled,
}: Omit<FieldProps, 'wrong'> & {
  value: Value;
  onValue: (value: Value) => void;
  /** Values with the words for them. */
  options: readonly (readonly [Value, string])[];
  disabled?: boolean;
}) {
  const id = useId();
  return (
    <Field id={id} label={label} hint={hint} unlabelled={unlabelled ?? false}>
      <select
        id={id}
        class="input"
        value={value}
        disabled={disabled ?? false}
        onChange={(event) => onValue(event.currentTarget.value as Value)}
      >
        {options.map(([each, words]) => (
          <option key={each} value={each}>
            {words}
          </option>
        ))}
      </select>
    </Field>
  );
}

/** On or off. */
export function Check({
  label,
  value,
  onValue,
  disabled,
}: {
  label: ComponentChildren;
  value: boolean;
  onValue: (value: boolean) => void;
  disabled?: boolean;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={value}
        disabled={disabled ?? false}
        onChange={(event) => onValue(event.currentTarget.checked)}
      />
      <span>{label}</span>
    </label>
  );
}

/** Filters what is beneath it while one types. The key `/` goes into the first one of a screen. */
export function Search({
  label,
  value,
  onValue,
  placeholder = label,
}: {
  label: string;
  value: string;
  onValue: (value: string) => void;
  placeholder?: string;
}) {
  return (
    <search class="search">
      <IconSearch />
      <input
        type="search"
        class="input"
        data-search
        aria-label={label}
        placeholder={placeholder}
        value={value}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => onValue(event.currentTarget.value)}
      />
    </search>
  );
}
