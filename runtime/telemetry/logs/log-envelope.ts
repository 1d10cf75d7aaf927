// Parses what Cellar's code in a Worker prints around an app's text: `\u001ecellar `, JSON, one of two end markers, and the
// text. An app can print the same, but that affects only the app's own data.

const MARK = '\u001ecellar ';
const END = '\u001e';
/** The end marker when `console` has added a blank before the text. */
const END_WITH_BLANK = '\u001f';

/** An app's text, and the data that Cellar's code in the Worker adds to it. */
export interface LogEnvelope {
  text: string;
  /** Unchecked members of the JSON, such as `trace_id` and `error`. */
  said: Record<string, unknown>;
}

/** Parses a message of workerd's log; null without a marker or with invalid data after it. */
export function readLogEnvelope(message: string): LogEnvelope | null {
  if (!message.startsWith(MARK)) return null;
  // JSON contains neither end marker.
  const ends = [END, END_WITH_BLANK]
    .map((mark) => message.indexOf(mark, MARK.length))
    .filter((at) => at !== -1);
  if (ends.length === 0) return null;
  const end = Math.min(...ends);
  const said = parseObject(message.slice(MARK.length, end));
  if (said === null) return null;
  const text = message.slice(end + END.length);
  const hasBlank = message[end] === END_WITH_BLANK && text.startsWith(' ');
  return { text: hasBlank ? text.slice(1) : text, said };
}

/** Parses JSON; null for anything but an object. */
export function parseObject(json: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}
