// Refuses a push in git's own protocol. Of an HTTP error, git would show only the status.
import type { Push } from './receive-pack.ts';

/** Longest ref name in a report, in characters. No file system has a longer path. */
const REF_LENGTH = 4096;
/** Ends a list of lines. */
const FLUSH = '0000';
/** Number of the side band whose data git parses. Git only prints the text of the second side band. */
const DATA_BAND = '\x01';

/**
 * Refuses a whole push: git prints a line for each ref.
 * @param reasons by ref; a ref without one is refused because of the others
 * @returns null for a client without reports, which would believe that the push has succeeded
 */
export function reportRefusal(
  { commands, capabilities }: Push,
  reasons: Map<string, string>,
): Response | null {
  if (!capabilities.some((name) => /^report-status(-v2)?$/.test(name))) return null;
  const refusals = commands.map(
    ({ ref }) => `ng ${ref.slice(0, REF_LENGTH)} ${reasons.get(ref) ?? 'refused because of the others'}\n`,
  );
  const report = [...['unpack ok\n', ...refusals].map(line), FLUSH];
  const inBands = capabilities.includes('side-band-64k');
  const sent = inBands ? [...report.map((part) => line(DATA_BAND + part)), FLUSH] : report;
  return new Response(sent.join(''), {
    headers: { 'content-type': 'application/x-git-receive-pack-result', 'cache-control': 'no-cache' },
  });
}

/** Returns a pkt-line: its length in bytes as four hexadecimal digits, which count too, and its text. */
export function line(text: string): string {
  const length = 4 + new TextEncoder().encode(text).length;
  return length.toString(16).padStart(4, '0') + text;
}
