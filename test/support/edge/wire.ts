// Parses raw HTTP answers.

export interface WireAnswer {
  status: number;
  /** Values by name, in lower case. A repeated header has its last value. */
  headers: Map<string, string>;
  body: string;
  /** Whether the body is complete by its length or its chunks. False for a body that ends when the connection closes. */
  whole: boolean;
}

/**
 * Parses the answers that a client received. Leaves out informational answers (1xx). The last answer may be truncated.
 * @param isHead whether the answer is to a HEAD request, which has no body
 */
export function readAnswers(
  received: string,
  isHead: (answer: WireAnswer, index: number) => boolean,
): WireAnswer[] {
  const answers: WireAnswer[] = [];
  let at = 0;
  while (at < received.length) {
    const end = received.indexOf('\r\n\r\n', at);
    if (end === -1) break;
    const [line = '', ...fields] = received.slice(at, end).split('\r\n');
    const headers = new Map<string, string>();
    for (const field of fields) {
      const colon = field.indexOf(':');
      headers.set(field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim());
    }
    const answer = { status: Number(line.split(' ')[1]), headers, body: '', whole: true };
    at = end + 4;
    if (answer.status < 200) continue;
    answers.push(answer);
    if (isHead(answer, answers.length - 1) || answer.status === 204 || answer.status === 304) continue;
    at = readBody(received, at, answer);
  }
  return answers;
}

/** Reads the body into `answer`. Returns the offset of its end. */
function readBody(received: string, from: number, answer: WireAnswer): number {
  if (answer.headers.get('transfer-encoding') === 'chunked') return readChunks(received, from, answer);
  const length = answer.headers.get('content-length');
  const end = length === undefined ? received.length : from + Number(length);
  answer.body = received.slice(from, end);
  answer.whole = length !== undefined && answer.body.length === Number(length);
  return end;
}

function readChunks(received: string, from: number, answer: WireAnswer): number {
  let at = from;
  for (;;) {
    const lineEnd = received.indexOf('\r\n', at);
    const size = Number.parseInt(received.slice(at, lineEnd), 16);
    const end = lineEnd + 2 + size;
    answer.body += received.slice(lineEnd + 2, end);
    answer.whole = lineEnd !== -1 && received.startsWith('\r\n', end);
    if (!answer.whole) return received.length;
    at = end + 2;
    if (size === 0) return at;
  }
}
