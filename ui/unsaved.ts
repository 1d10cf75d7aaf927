// Tracks unsaved input. Asks the person before a screen or dialog drops it.

type Field = HTMLInputElement | HTMLTextAreaElement;

const QUESTION = 'What you typed here is not saved. Drop it?';
/** Fields with input, and their last saved text. */
const savedTexts = new Map<Field, string>();
const keepers: { texts: Map<string, unknown>; isUnsaved: () => boolean }[] = [];

/** Starts to track input. The browser asks before it leaves a page with unsaved text. */
export function watchTyping(): void {
  document.addEventListener('beforeinput', (event) => {
    const field = event.composedPath()[0];
    if (!(field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement)) return;
    for (const each of savedTexts.keys()) if (!each.isConnected) savedTexts.delete(each);
    if (!savedTexts.has(field)) savedTexts.set(field, field.value);
  });
  addEventListener('beforeunload', (event) => {
    if (hasTyped(document) || keepers.some(({ isUnsaved }) => isUnsaved())) event.preventDefault();
  });
}

/** Registers text that survives switching screens, and is lost only with the page or when another person signs in. */
export function keptInPage(texts: Map<string, unknown>, isUnsaved: () => boolean): void {
  keepers.push({ texts, isUnsaved });
}

/** Drops all registered text, for the next person at this page. */
export function forgetKept(): void {
  for (const { texts } of keepers) texts.clear();
}

/** Records the text that a form sends. @returns a function that marks the text as saved */
export function sentText(form: Node): () => void {
  const sent = [...savedTexts.keys()].filter((field) => form.contains(field));
  const texts = sent.map((field) => [field, field.value] as const);
  return () => {
    for (const [field, text] of texts) savedTexts.set(field, text);
  };
}

/** Returns whether the fields of a part of the page may be dropped: they have no unsaved text, or the person agrees. */
export function mayDrop(part: Node = document): boolean {
  return !hasTyped(part) || confirm(QUESTION);
}

/** Ignores search fields, and fields with `data-kept`, whose text is restored. */
function hasTyped(part: Node): boolean {
  return [...savedTexts].some(
    ([field, saved]) =>
      part.contains(field) &&
      field.value !== saved &&
      field.value.trim() !== '' &&
      !field.closest('search, [data-kept]'),
  );
}
