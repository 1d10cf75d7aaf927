// Errors of single form fields from the API, shown until the field changes.
import { signal } from '@preact/signals';
import type { Failure } from '../../api.ts';

/** Error messages by the control's id. */
const faults = signal<ReadonlyMap<string, string>>(new Map());

/** Returns a control's error; null for none. Reading it subscribes to it. */
export function faultOf(id: string): string | null {
  return faults.value.get(id) ?? null;
}

export function clearFault(id: string): void {
  if (!faults.peek().has(id)) return;
  const left = new Map(faults.peek());
  left.delete(id);
  faults.value = left;
}

/**
 * Shows the API's errors at the fields of a form, and focuses the first one.
 * @returns false when the error names no field, or a field that the form lacks
 */
export function showFaults(form: Element | null, { fields = [] }: Partial<Failure>): boolean {
  const controls = [...(form?.querySelectorAll<HTMLInputElement>('.field [name]') ?? [])];
  const found = fields.map(({ path, message }) => {
    const control = controls.find(({ name }) => name === path || path.startsWith(`${name}.`));
    return [control, message] as const;
  });
  const known = found.filter(([control]) => control !== undefined);
  faults.value = new Map(known.map(([control, message]) => [control!.id, sentence(message)]));
  known[0]?.[0]?.focus();
  return known.length > 0 && known.length === fields.length;
}

function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}
