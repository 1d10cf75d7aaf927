// What an OpenAI-compatible server answers, as Workers AI says it. Of text generation the server's own fields stay: some of
// Cloudflare's models answer with them.
import { type Call, isObject } from './calls.ts';
import { failedUpstream } from './errors.ts';

/** Maximum characters of a line in a streamed answer. */
const LINE_LENGTH = 1_048_576;
const DATA = /^data: ?/;

/** A whole answer, as JSON. @throws {AiError} when it is none of this kind */
export function wholeAnswer(kind: Call['kind'], text: string): string {
  if (kind === 'responses') return text;
  const answer = parse(text);
  const translated = kind === 'chat' ? completion(answer) : embeddings(answer);
  if (translated === null) throw failedUpstream('The AI server answered with something else.');
  return JSON.stringify(translated);
}

function completion(answer: unknown): object | null {
  const message = isObject(answer) && first(answer.choices)?.message;
  if (!isObject(message)) return null;
  const calls = Array.isArray(message.tool_calls) ? message.tool_calls.map(toolCall) : [];
  return {
    ...(answer as object),
    response: typeof message.content === 'string' ? message.content : '',
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** A call of a tool, with its arguments as they are meant. */
function toolCall(call: unknown): unknown {
  if (!isObject(call) || !isObject(call.function)) return call;
  const { name, arguments: given } = call.function;
  return { ...(typeof call.id === 'string' && { id: call.id }), name, arguments: parse(given) ?? given };
}

function embeddings(answer: unknown): object | null {
  if (!isObject(answer) || !Array.isArray(answer.data)) return null;
  const rows = [...answer.data]
    .sort((one, other) => (one?.index ?? 0) - (other?.index ?? 0))
    .map((row: unknown) => (isObject(row) && Array.isArray(row.embedding) ? row.embedding : null));
  if (rows.includes(null)) return null;
  return { shape: [rows.length, rows[0]?.length ?? 0], data: rows };
}

/** Translates a streamed answer piece by piece: each event gets `response`, the text that it adds. */
export class StreamTranslator {
  readonly #decoder = new TextDecoder();
  #rest = '';

  /** @returns the events that are whole. @throws {AiError} when one has no end */
  write(bytes: Uint8Array): string {
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split('\n');
    this.#rest = lines.pop()!;
    if (this.#rest.length > LINE_LENGTH)
      throw failedUpstream('The AI server streamed a line without an end.');
    return lines.map(translatedLine).join('');
  }
}

function translatedLine(line: string): string {
  const data = line.trimEnd();
  // Comments keep the connection alive. The ends of events are written with their data.
  if (!DATA.test(data)) return data.startsWith(':') ? `${data}\n\n` : '';
  const text = data.replace(DATA, '');
  const chunk = parse(text);
  if (!isObject(chunk)) return `data: ${text}\n\n`;
  const delta = first(chunk.choices)?.delta;
  const response = isObject(delta) && typeof delta.content === 'string' ? delta.content : '';
  return `data: ${JSON.stringify({ response, ...chunk })}\n\n`;
}

function first(list: unknown): Record<string, unknown> | null {
  return Array.isArray(list) && isObject(list[0]) ? list[0] : null;
}

function parse(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return null;
  }
}
