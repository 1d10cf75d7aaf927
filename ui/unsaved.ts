// Tracks unsaved input. Asks the person before a screen or dialog drops it.

type Field = HTMLInputElement | HTMLTextAreaElement;

const QUESTION = 'What you typed here is not saved. Discard it?';
/** Fields in which a person typed, each with its saved text: the text before the typing, or the text sent last. */
const savedTexts = new Map<Field, string>();
const keepers: { texts: Map<string, unknown>; isUnsaved: () => boolean }[] = [];

/** Starts to track typed text. The browser asks before it leaves a page with unsaved text. */
export function watchTyping(): void {
  document.addEventListener('beforeinput', (event) => {
    const field = event.composedPath()[0];
    if (!(field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement)) return;
    for (const each of savedTexts.keys()) if (!each.isConnected) savedTexts.delete(each);
    if (!savedTexts.has(field)) savedTexts.set(field, field.value);
  });
  addEventListener('beforeunload', (event) => {
    if (hasUnsaved()) event.preventDefault();
  });
}

/** Whether leaving the page would lose text. */
export function hasUnsaved(): boolean {
  return hasTyped() || keepers.some(({ isUnsaved }) => isUnsaved());
}

/** Registers text that survives switching screens. It is lost when the page is left, or another account signs in. */
export function keptInPage(texts: Map<string, unknown>, isUnsaved: () => boolean): void {
  keepers.push({ texts, isUnsaved });
}

/** Drops all registered text, so that the next account in this page does not see it. */
export function forgetKept(): void {
  for (const { texts } of keepers) texts.clear();
}

/** Records the text in a form's fields. @returns a function that marks this text as saved */
export function sentText(form: Node): () => void {
  const sent = [...savedTexts.keys()].filter((field) => form.contains(field));
  const texts = sent.map((field) => [field, field.value] as const);
  return () => {
    for (const [field, text] of texts) savedTexts.set(field, text);
  };
}

/** Whether a part of the page (default: all) may be dropped: its fields have no unsaved text, or the person agrees. */
export function mayDrop(part?: Node): boolean {
  return !hasTyped(part) || confirm(QUESTION);
}

/** Whether a part of the page has unsaved text. Ignores search fields, and `data-kept` fields, whose text is restored. */
function hasTyped(part?: Node): boolean {
  return [...savedTexts].some(
    ([field, saved]) =>
      (part?.contains(field) ?? field.isConnected) &&
      field.value !== saved &&
      field.value.trim() !== '' &&
      !field.closest('search, [data-kept]'),
  );
}
