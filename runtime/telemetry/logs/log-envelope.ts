// What a Worker's entry prints with an app's text: `\u001ecellar `, JSON, one of two ends, and the text. An app can print
// the same by itself: it says nothing of any app but that one.

const MARK = '\u001ecellar ';
const END = '\u001e';
/** A blank follows that is none of the text's. */
const END_WITH_BLANK = '\u001f';

/** A text, and what the entry said with it. */
export interface LogEnvelope {
  text: string;
  /** Not checked: `trace_id` of the event, `error` that was thrown or printed. */
  said: Record<string, unknown>;
}

/** The parts of a message of workerd's log; null for one that has no mark, or nothing readable behind it. */
export function readLogEnvelope(message: string): LogEnvelope | null {
  if (!message.startsWith(MARK)) return null;
  // JSON has neither of them.
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

/** The object that a text is as JSON; null when it is something else, or no JSON. */
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
