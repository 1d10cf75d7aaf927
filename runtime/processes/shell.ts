// Quoting for the shell.

/** Quotes a text as one shell word. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
