// Text that somebody typed and that is not saved. Before a screen or a window takes it away, the person is asked.

type Field = HTMLInputElement | HTMLTextAreaElement;

const QUESTION = 'What you typed here is not saved. Drop it?';
/** Fields that were typed into, with the text that was saved last. */
const savedTexts = new Map<Field, string>();
const keepers: { texts: Map<string, unknown>; isUnsaved: () => boolean }[] = [];

/** Begins to watch what is typed, and has the browser ask before it leaves a page with unsaved text. */
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

/** Adds text that stays when one goes from screen to screen, and is lost only with the page or when somebody else signs in. */
export function keptInPage(texts: Map<string, unknown>, isUnsaved: () => boolean): void {
  keepers.push({ texts, isUnsaved });
}

/** Forgets all text that stays, for the next person at this page. */
export function forgetKept(): void {
  for (const { texts } of keepers) texts.clear();
}

/**
 * Takes note of the text that a form sends.
 * @returns marks that text as saved
 */
export function sentText(form: Node): () => void {
  const sent = [...savedTexts.keys()].filter((field) => form.contains(field));
  const texts = sent.map((field) => [field, field.value] as const);
  return () => {
    for (const [field, text] of texts) savedTexts.set(field, text);
  };
}

/** Returns whether the fields of a part of the page may go: they have no unsaved text, or the person drops it. */
export function mayDrop(part: Node = document): boolean {
  return !hasTyped(part) || confirm(QUESTION);
}

/** What one searches for is no text to save, and a field with `data-kept` gets its text back. */
function hasTyped(part: Node): boolean {
  return [...savedTexts].some(
    ([field, saved]) =>
      part.contains(field) &&
      field.value !== saved &&
      field.value.trim() !== '' &&
      !field.closest('search, [data-kept]'),
  );
}
