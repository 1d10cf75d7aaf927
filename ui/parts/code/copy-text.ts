// Copies text to the clipboard.

/**
 * Copies a text. Browsers have the clipboard API only for HTTPS and localhost; elsewhere it copies a selected text.
 * @throws {Error} when the browser does not copy it
 */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  // While a modal dialog is open, nothing outside it can be selected.
  const dialog = [...document.querySelectorAll('dialog:modal')].at(-1);
  (dialog ?? document.body).append(area);
  area.select();
  const isCopied = document.execCommand('copy');
  area.remove();
  if (!isCopied) throw new Error('The browser did not copy this. Select the text, then press Ctrl C or ⌘ C.');
}
