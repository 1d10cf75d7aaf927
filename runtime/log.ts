// The host's own log: one line per fact on standard output, for people and for `grep`.

type Fields = Record<string, string | number | boolean | null | undefined>;

/** Writes one line: time, level, message, then `key=value` fields; undefined fields are left out. Never pass a secret. */
export function log(level: 'info' | 'warn' | 'error', message: string, fields: Fields = {}): void {
  let line = `${new Date().toISOString()} ${level.padEnd(5)} ${message}`;
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const text = String(value);
    line += ` ${key}=${/^[\w.:/@-]*$/.test(text) ? text : JSON.stringify(text)}`;
  }
  process.stdout.write(`${line}\n`);
}

/** The message of anything that was thrown. */
export function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
