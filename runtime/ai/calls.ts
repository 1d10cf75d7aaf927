// Translates requests in the format of Workers AI to requests for an OpenAI-compatible server.
import { cutText } from '../../handlers/contract/text.ts';
import { DECODED, formatOf } from '../images/formats.ts';
import { type AiError, invalidInput } from './errors.ts';

type Json = Record<string, unknown>;

/** A request to the AI server. */
export interface Call {
  kind: 'chat' | 'embeddings' | 'responses';
  /** Path below the server's URL. */
  path: string;
  body: Json & { model: string };
}

/** A serialized request to the AI server. While a request waits, its parsed objects would need several times as much memory. */
export interface SerializedCall extends Pick<Call, 'kind' | 'path'> {
  model: string;
  body: Buffer;
  isStream: boolean;
  /** Whether the app asked for JSON Mode, in which `response` is an object. */
  asksJson: boolean;
}

/** Parameters of text generation with the same name in both formats. */
const SAME = [
  'max_tokens',
  'temperature',
  'top_p',
  'top_k',
  'seed',
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'response_format',
  'stop',
  'tool_choice',
  'parallel_tool_calls',
  'max_completion_tokens',
  'reasoning_effort',
  'chat_template_kwargs',
];

/**
 * Allowed parameters of the Responses API, besides `store`, which is replaced. Others are refused: some refer to data stored
 * on the AI server, or make the server run tools.
 */
const OF_RESPONSES = [
  ...['input', 'instructions', 'stream', 'max_output_tokens', 'temperature', 'top_p', 'top_logprobs', 'seed'],
  ...[
    'reasoning',
    'text',
    'tools',
    'tool_choice',
    'parallel_tool_calls',
    'truncation',
    'include',
    'metadata',
  ],
];
/** Types of tools that the app itself runs. */
const OWN_TOOLS = ['function', 'custom'];

/**
 * Translates the inputs of a `run()` call.
 * @param model the model's name on the server
 * @throws {AiError} for inputs that are invalid, not supported, or not allowed to apps
 */
export function callOf(model: string, inputs: unknown): Call {
  if (!isObject(inputs)) throw invalidInput('The inputs must be an object.');
  if (inputs.requests !== undefined)
    throw invalidInput('Batches of requests are not run here: call run() for each.');
  requireOwnMedia(inputs);
  requireOwnTools(inputs);
  if (Array.isArray(inputs.messages) || typeof inputs.prompt === 'string') return chat(model, inputs);
  if (inputs.input !== undefined) return responses(model, inputs);
  if (isText(inputs.text) && inputs.target_lang === undefined)
    return { kind: 'embeddings', path: '/embeddings', body: { model, input: inputs.text } };
  throw invalidInput(
    'Only text generation ("messages", "prompt" or "input") and embeddings ("text") are run here.',
  );
}

/** Serializes a request. */
export function serialize({ kind, path, body }: Call): SerializedCall {
  const { model, stream, response_format: format } = body;
  const asksJson = isObject(format) && (format.type === 'json_object' || format.type === 'json_schema');
  return { kind, path, model, body: Buffer.from(JSON.stringify(body)), isStream: stream === true, asksJson };
}

function chat(model: string, inputs: Json): Call {
  const asked = Array.isArray(inputs.messages) ? inputs.messages : [{ role: 'user', content: inputs.prompt }];
  const messages = inputs.image == null ? asked : withImage(asked, imageUrl(inputs.image));
  const isStream = inputs.stream === true;
  const body = {
    model,
    messages,
    ...Object.fromEntries(
      SAME.filter((name) => inputs[name] !== undefined).map((name) => [name, inputs[name]]),
    ),
    ...(isObject(inputs.response_format) && { response_format: asFormat(inputs.response_format) }),
    ...(Array.isArray(inputs.tools) && { tools: inputs.tools.map(asTool) }),
    ...(isStream && { stream: true, stream_options: { include_usage: true } }),
  };
  return { kind: 'chat', path: '/chat/completions', body };
}

/**
 * Translates inputs for the Responses API. Refuses parameters that are not in `OF_RESPONSES`, and has the AI server store
 * nothing. All apps share one API key, so stored data could belong to another app or to the operator.
 */
function responses(model: string, { store: _, ...inputs }: Json): Call {
  for (const name of Object.keys(inputs))
    if (!OF_RESPONSES.includes(name))
      throw invalidInput(
        `"${cutText(name, 100)}" is not supported: apps may not store data on the AI server.`,
      );
  // A reference to a stored item may leave out its `type`.
  for (const item of [inputs.input].flat())
    if (isObject(item) && item.id != null && typeof item.role !== 'string' && typeof item.type !== 'string')
      throw storedUpstream();
  return { kind: 'responses', path: '/responses', body: { ...inputs, model, store: false } };
}

/** Adds an image to the last message of the user, where OpenAI's format has it. */
function withImage(messages: unknown[], url: string): unknown[] {
  const at = messages.findLastIndex((message) => isObject(message) && message.role === 'user');
  if (at === -1) throw invalidInput('"image" needs a message with the role "user".');
  const { content, ...message } = messages[at] as Json;
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
  return messages.with(at, {
    ...message,
    content: [parts, { type: 'image_url', image_url: { url } }].flat(),
  });
}

/** Returns the data: URL of an image, which Workers AI takes as an array of bytes too. Other URLs are not fetched. */
function imageUrl(image: unknown): string {
  if (typeof image === 'string' && /^data:image\//i.test(image)) return image;
  const isByte = (value: unknown) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 255;
  const bytes = Buffer.from(Array.isArray(image) && image.every(isByte) ? image : []);
  const format = DECODED.find((each) => each === formatOf(bytes));
  if (format === undefined)
    throw invalidInput(
      '"image" must be the bytes of a JPEG, PNG, GIF, WebP or AVIF, as an array of numbers, or a data: URL of an image.',
    );
  return `data:${format};base64,${bytes.toString('base64')}`;
}

/** Names a bare JSON schema: Workers AI takes it so, and OpenAI's format needs a name for it. */
function asFormat(format: Json): Json {
  const { type, json_schema: given } = format;
  return type === 'json_schema' && isObject(given) && given.schema === undefined
    ? { type, json_schema: { name: 'response', schema: given } }
    : format;
}

/** Wraps a bare function as a tool: Workers AI accepts both. */
function asTool(tool: unknown): unknown {
  return isObject(tool) && typeof tool.name === 'string' && tool.function === undefined
    ? { type: 'function', function: tool }
    : tool;
}

/** Refuses tools that the AI server would run. */
function requireOwnTools({ tools }: Json): void {
  for (const tool of Array.isArray(tools) ? tools : [])
    if (!isObject(tool) || !OWN_TOOLS.includes(String(tool.type ?? 'function')))
      throw invalidInput(
        'The tools must be functions of the app: tools that run on the AI server are not allowed.',
      );
}

/**
 * Refuses images, files and tools given by a URL. The AI server would fetch the URL, perhaps from a network that the app
 * must not reach (SSRF). Workers AI refuses them too. Also refuses references to files and items stored on the server.
 */
function requireOwnMedia(inputs: Json): void {
  const left: object[] = [inputs];
  for (let value = left.pop(); value !== undefined; value = left.pop()) {
    if (Array.isArray(value)) {
      for (const each of value) if (typeof each === 'object' && each !== null) left.push(each);
      continue;
    }
    for (const name in value) {
      const each = (value as Json)[name];
      const given = isObject(each) ? each.url : each;
      if (typeof each === 'string' && (name === 'file_id' || (name === 'type' && each === 'item_reference')))
        throw storedUpstream();
      if (/_url$/i.test(name) && typeof given === 'string' && !/^data:/i.test(given))
        throw invalidInput(
          `${cutText(name, 100)} must be a data: URL, with the bytes in it: addresses are not fetched.`,
        );
      if (typeof each === 'object' && each !== null) left.push(each);
    }
  }
}

function storedUpstream(): AiError {
  return invalidInput('Files and items that are stored on the AI server are not allowed.');
}

function isText(value: unknown): boolean {
  return (
    typeof value === 'string' || (Array.isArray(value) && value.every((each) => typeof each === 'string'))
  );
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
