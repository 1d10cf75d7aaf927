// Translates responses of an OpenAI-compatible server to those of Workers AI. For text generation, the server's own fields
// are kept, because some of Cloudflare's models return them too.
import { isObject, type SerializedCall } from './calls.ts';
import { failedUpstream } from './errors.ts';

/** Maximum characters of a line in a streamed response, as far as the line has arrived. */
const LINE_LENGTH = 1_048_576;
const DATA = /^data: ?/;

/**
 * Translates a complete response. Returns one of kind `responses` unchanged and unchecked.
 * @returns JSON
 * @throws {AiError} when a response of another kind lacks the expected fields
 */
export function wholeAnswer(
  { kind, asksJson }: Pick<SerializedCall, 'kind' | 'asksJson'>,
  text: string,
): string {
  if (kind === 'responses') return text;
  const answer = parse(text);
  const translated = kind === 'chat' ? completion(answer, asksJson) : embeddings(answer);
  if (translated === null)
    throw failedUpstream(
      'The response of the AI server lacks the fields of the OpenAI API; the operator can check RUNNER_AI_URL.',
    );
  return JSON.stringify(translated);
}

function completion(answer: unknown, asksJson: boolean): object | null {
  const message = isObject(answer) && first(answer.choices)?.message;
  if (!isObject(message)) return null;
  const content = typeof message.content === 'string' ? message.content : '';
  const calls = Array.isArray(message.tool_calls) ? message.tool_calls.map(toolCall) : [];
  return {
    ...(answer as object),
    response: asksJson ? (parse(content) ?? content) : content,
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** Translates a tool call. Parses its arguments, which OpenAI sends as a string of JSON. */
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

/**
 * Translates a streamed response in chunks. Each JSON event gets the field `response`, with the text that the event adds.
 * The text is removed from `choices`, because clients such as `workers-ai-provider` would add it twice.
 */
export class StreamTranslator {
  readonly #decoder = new TextDecoder();
  #rest = '';

  /** Takes the next chunk. @returns the complete events @throws {AiError} when a line is too long */
  write(bytes: Uint8Array): string {
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split('\n');
    this.#rest = lines.pop()!;
    if (this.#rest.length > LINE_LENGTH)
      throw failedUpstream(
        'The AI server streamed a line that is too long; the operator can check RUNNER_AI_URL.',
      );
    return lines.map(translatedLine).join('');
  }

  /** Call it at the stream's end. Returns the translated last line if it has no newline; otherwise an empty text. */
  end(): string {
    return translatedLine(this.#rest + this.#decoder.decode());
  }
}

function translatedLine(line: string): string {
  const data = line.trimEnd();
  // SSE comments are passed on, because they keep the connection alive. Other lines are dropped: each data line below brings
  // the blank line that ends its event.
  if (!DATA.test(data)) return data.startsWith(':') ? `${data}\n\n` : '';
  const text = data.replace(DATA, '');
  const chunk = parse(text);
  if (!isObject(chunk)) return `data: ${text}\n\n`;
  const delta = first(chunk.choices)?.delta;
  const response = isObject(delta) && typeof delta.content === 'string' ? delta.content : '';
  if (isObject(delta)) delete delta.content;
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
