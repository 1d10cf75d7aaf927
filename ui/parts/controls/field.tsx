// Form fields.
import type { ComponentChildren, PartialInputHTMLAttributes, Ref } from 'preact';
import { useId } from 'preact/hooks';
import { IconSearch } from '../icons.tsx';
import { clearFault, faultOf } from '../status/faults.ts';

interface FieldProps {
  label: string;
  /** Help text below the field. */
  hint?: ComponentChildren;
  /** Error message, shown instead of the hint. */
  wrong?: string | null;
  /** Shows the label to screen readers only. */
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
  /** The text is restored when its screen opens again, so the person is not asked before leaving. */
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

/** Returns the props of a text field's wrapper and of its control. */
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
      // The API's name of the parameter. Errors of the API name the field by it.
      name: name ?? label.toLowerCase().replaceAll(' ', '_'),
      onInput: (event: { currentTarget: Element }) => {
        clearFault(id);
        onValue(event.currentTarget.value);
      },
    },
  };
}

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

export function TextArea(props: Own<HTMLTextAreaElement> & { rows?: number }) {
  const { field, control } = useText(props);
  return (
    <Field {...field}>
      <textarea {...control} />
    </Field>
  );
}

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
  /** Values, each with its text. */
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

/** A checkbox. */
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

/** A search field that filters the content below it while typing. The key `/` focuses the screen's first one. */
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
