// What the API refused about single fields, shown at them until somebody changes them.
import { signal } from '@preact/signals';
import type { Failure } from '../../api.ts';

/** What is wrong with controls, by their ids. */
const faults = signal<ReadonlyMap<string, string>>(new Map());

/** Returns what is wrong with a control; null when nothing is known. Reading it subscribes to it. */
export function faultOf(id: string): string | null {
  return faults.value.get(id) ?? null;
}

/** Forgets what was wrong with a control. */
export function clearFault(id: string): void {
  if (!faults.peek().has(id)) return;
  const left = new Map(faults.peek());
  left.delete(id);
  faults.value = left;
}

/**
 * Shows what the API refused at the fields of a form that it names, and focuses the first one.
 * @returns whether the form has all of those fields
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
