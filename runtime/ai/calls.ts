// What an app asks of a model, in the words of Workers AI, as an OpenAI-compatible server takes it.
import { cutText } from '../../handlers/contract/text.ts';
import { invalidInput } from './errors.ts';

type Json = Record<string, unknown>;

/** A call of the AI server. */
export interface Call {
  kind: 'chat' | 'embeddings' | 'responses';
  /** Below the server's URL. */
  path: string;
  body: Json & { model: string };
}

/** Settings of text generation that both sides call the same. */
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

/** What the Responses API takes here, beside the model. The rest names what the AI server keeps, or has it act by itself. */
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
/** Tools that the app itself carries out. */
const OWN_TOOLS = ['function', 'custom'];

/**
 * Reads what an app asks of a model.
 * @param model as the server calls it
 * @throws {AiError} for what no OpenAI-compatible server does
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

function chat(model: string, inputs: Json): Call {
  const messages = inputs.messages ?? [{ role: 'user', content: inputs.prompt }];
  const isStream = inputs.stream === true;
  const body = {
    model,
    messages,
    ...Object.fromEntries(
      SAME.filter((name) => inputs[name] !== undefined).map((name) => [name, inputs[name]]),
    ),
    ...(Array.isArray(inputs.tools) && { tools: inputs.tools.map(asTool) }),
    ...(isStream && { stream: true, stream_options: { include_usage: true } }),
  };
  return { kind: 'chat', path: '/chat/completions', body };
}

/** All apps ask with one key: what the server keeps for it, or does in its name, may be another's or the operator's. */
function responses(model: string, { store: _, ...inputs }: Json): Call {
  for (const name of Object.keys(inputs))
    if (!OF_RESPONSES.includes(name))
      throw invalidInput(`"${cutText(name, 100)}" is not for apps here: nothing is kept on the AI server.`);
  return { kind: 'responses', path: '/responses', body: { ...inputs, model, store: false } };
}

/** Workers AI takes a function by itself, too. */
function asTool(tool: unknown): unknown {
  return isObject(tool) && typeof tool.name === 'string' && tool.function === undefined
    ? { type: 'function', function: tool }
    : tool;
}

/** Refuses tools that the AI server would carry out. */
function requireOwnTools({ tools }: Json): void {
  for (const tool of Array.isArray(tools) ? tools : [])
    if (!isObject(tool) || !OWN_TOOLS.includes(String(tool.type ?? 'function')))
      throw invalidInput('The tools must be functions of the app: those of the AI server are not for apps.');
}

/**
 * Refuses images, files and tools that are given by an address: the AI server would fetch it, and may reach networks that
 * the app must not. Workers AI takes none either. What the server itself keeps is refused, too.
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
        throw invalidInput('Files and items that are kept on the AI server are not for apps.');
      if (/_url$/i.test(name) && typeof given === 'string' && !/^data:/i.test(given))
        throw invalidInput(
          `${cutText(name, 100)} must be a data: URL, with the bytes in it: addresses are not fetched.`,
        );
      if (typeof each === 'object' && each !== null) left.push(each);
    }
  }
}

function isText(value: unknown): boolean {
  return (
    typeof value === 'string' || (Array.isArray(value) && value.every((each) => typeof each === 'string'))
  );
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
