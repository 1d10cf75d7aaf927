// Runs an operation for an agent. Shortens an answer that is too long for the agent's context, with a hint how to get the
// rest.
import type { Context } from '../context.ts';
import type { Operation } from '../contract/operation.ts';
import { AGENT_ANSWER_CHARACTERS } from '../contract/sizes.ts';
import { cutText } from '../contract/text.ts';
import { fromBase64 } from '../services/base64.ts';
import { invoke } from '../transports/invoke.ts';

/** Default number of entries in a list. */
const DEFAULT_LIMIT = 20;
/** Maximum characters of one string in an answer that is too long. */
const TEXT_CHARACTERS = 8_000;
/** Fields that are truncated at the beginning, because the end matters most. */
const TRUNCATED_AT_START = ['log'];

/** An answer as text. `hint` says how to get the rest; null when nothing was left out. */
export interface Shown {
  text: string;
  hint: string | null;
}

/** Runs an operation. @throws {Problem} its errors */
export async function run(context: Context, operation: Operation, given: object): Promise<Shown> {
  const input = { ...given } as Record<string, unknown>;
  if ('limit' in operation.input.shape && input.limit === undefined) input.limit = DEFAULT_LIMIT;
  for (;;) {
    const { output } = await invoke(operation, context, input, { transport: 'rpc', key: null });
    const answer = readable(output);
    const text = JSON.stringify(answer);
    if (text.length <= AGENT_ANSWER_CHARACTERS) return { text, hint: hintOf(answer) };
    // Runs a read again with a smaller page, instead of truncating its answer. Does not repeat an operation with changes.
    const limit = Number(input.limit);
    if (operation.method !== 'GET' || !(limit > 1))
      return operation.name === 'metrics.get' ? newest(answer) : cut(answer);
    input.limit = Math.ceil(limit / 4);
  }
}

/** Replaces `content_base64` or `value_base64` in an answer by its text, if the bytes are UTF-8. */
function readable(output: unknown): unknown {
  if (typeof output !== 'object' || output === null) return output;
  const answer = output as Record<string, unknown>;
  for (const name of ['content', 'value']) {
    const encoded = answer[`${name}_base64`];
    if (typeof encoded !== 'string') continue;
    const text = textOf(encoded);
    if (text === null) continue;
    const { [`${name}_base64`]: _, ...rest } = answer;
    return { ...rest, [name]: text };
  }
  return output;
}

function hintOf(answer: unknown): string | null {
  const cursor = (answer as { next_cursor?: unknown } | null)?.next_cursor;
  return typeof cursor === 'string'
    ? `There is more: ask again with cursor ${JSON.stringify(cursor)}.`
    : null;
}

/** Leaves out the oldest items of a range of time, which come first. */
function newest(answer: unknown): Shown {
  const { items, ...rest } = answer as { items: { at: string }[] };
  const kept = [...items];
  let text = JSON.stringify(answer);
  while (text.length > AGENT_ANSWER_CHARACTERS && kept.length > 1) {
    kept.splice(0, Math.ceil(kept.length / 10));
    text = JSON.stringify({ ...rest, items: kept });
  }
  return {
    text,
    hint: `Only items from ${kept[0]!.at} on are shown. Ask for fewer hours to get shorter steps.`,
  };
}

function cut(answer: unknown): Shown {
  const shortened = JSON.stringify(answer, (key, value: unknown) => {
    if (typeof value !== 'string' || value.length <= TEXT_CHARACTERS) return value;
    if (!TRUNCATED_AT_START.includes(key)) return cutText(value, TEXT_CHARACTERS, '…');
    return `…${value.slice(-TEXT_CHARACTERS).toWellFormed()}`;
  });
  return {
    text: cutText(shortened, AGENT_ANSWER_CHARACTERS, '…'),
    hint: `The answer was cut to ${AGENT_ANSWER_CHARACTERS} characters at most. Ask for less: a smaller range, path or limit, or fewer columns.`,
  };
}

function textOf(encoded: string): string | null {
  try {
    const bytes = fromBase64(encoded);
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
