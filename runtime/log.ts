// The host's own log: one line per event on standard output, for people and for `grep`.

/** Maximum bytes of the log that wait for its reader. Further lines are dropped and counted. */
const WAITING_BYTES = 1024 * 1024;
let dropped = 0;

export type Level = 'debug' | 'info' | 'warn' | 'error';
type Fields = Record<string, string | number | boolean | null | undefined>;

/** Shortest time between two lines of `logRarely` with the same message, in ms. */
const RARELY_MS = 60_000;
/** Number of messages that `logRarely` remembers; it forgets the least recently written one. */
const RARELY_MESSAGES = 1_000;
const saidAt = new Map<string, number>();

// A full disk or a closed reader loses log lines, but must not end the host.
process.stdout.on('error', () => {});
process.stderr.on('error', () => {});

/** Writes one line: time, level, message, then `key=value` fields; undefined fields are left out. Never pass a secret. */
export function log(level: Level, message: string, fields: Fields = {}): void {
  let line = `${new Date().toISOString()} ${level.padEnd(5)} ${message}`;
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const text = String(value);
    line += ` ${key}=${/^[\w.:/@#-]*$/.test(text) ? text : JSON.stringify(text)}`;
  }
  write(`${line}\n`);
}

function write(line: string): void {
  if (process.stdout.writableLength > WAITING_BYTES) {
    dropped++;
    return;
  }
  const missing = dropped;
  dropped = 0;
  if (missing > 0) log('warn', 'log lines were dropped because nothing read the output', { lines: missing });
  process.stdout.write(line);
}

/** Writes a line as `log` does, unless one with the same message was written within the last minute. */
export function logRarely(level: Level, message: string, fields?: Fields): void {
  const now = performance.now();
  if (now - (saidAt.get(message) ?? Number.NEGATIVE_INFINITY) < RARELY_MS) return;
  saidAt.delete(message);
  if (saidAt.size >= RARELY_MESSAGES) saidAt.delete(saidAt.keys().next().value!);
  saidAt.set(message, now);
  log(level, message, fields);
}

/** Returns the message of any thrown value. */
export function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
