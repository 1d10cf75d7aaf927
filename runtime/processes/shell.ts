// What the shell is given.

/** A text as one word of the shell's. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
