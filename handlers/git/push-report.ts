// Refuses a push in git's own protocol. If the refusal was an HTTP error, git would show only its status.
import type { Push } from './receive-pack.ts';

/** Longest ref name in a report, in characters: the maximum length of a path on Linux. */
const REF_LENGTH = 4096;
/** The flush packet, which ends a list of lines. */
const FLUSH = '0000';
/** Number of the side band whose data git parses. Git prints the text of side band 2 without parsing it. */
const DATA_BAND = '\x01';

/**
 * Returns the response that refuses a whole push. Git prints a line for each ref.
 * @param reasons why refs are refused, by ref. A ref without a reason is refused because another ref is refused.
 * @returns null when the client does not support reports: such a client would treat this response as a success
 */
export function reportRefusal(
  { commands, capabilities }: Push,
  reasons: Map<string, string>,
): Response | null {
  if (!capabilities.some((name) => /^report-status(-v2)?$/.test(name))) return null;
  const refusals = commands.map(
    ({ ref }) =>
      `ng ${ref.slice(0, REF_LENGTH)} ${reasons.get(ref) ?? 'refused, because another ref of this push is refused'}\n`,
  );
  const report = [...['unpack ok\n', ...refusals].map(line), FLUSH];
  const inBands = capabilities.includes('side-band-64k');
  const sent = inBands ? [...report.map((part) => line(DATA_BAND + part)), FLUSH] : report;
  return new Response(sent.join(''), {
    headers: { 'content-type': 'application/x-git-receive-pack-result', 'cache-control': 'no-cache' },
  });
}

/** Returns a pkt-line: four hexadecimal digits with the length of the whole line in bytes, then the text. */
export function line(text: string): string {
  const length = 4 + new TextEncoder().encode(text).length;
  return length.toString(16).padStart(4, '0') + text;
}
