// Prompts. Loaded only when there is a person to ask.
import { confirm, isCancel, password, text } from '@clack/prompts';
import { Stopped } from './exit.ts';

// Standard output is for the command's data only.
const output = process.stderr;

export async function askYes(message: string, signal: AbortSignal): Promise<boolean> {
  return answered<boolean>(await confirm({ message, initialValue: false, output, signal }));
}

export async function askText(message: string, initialValue: string, signal: AbortSignal): Promise<string> {
  return answered<string>(await text({ message, initialValue, output, signal }));
}

/** Asks for a line without showing it. */
export async function askSecret(message: string, signal: AbortSignal): Promise<string> {
  return answered<string>(await password({ message, output, signal }));
}

/** Returns the answer to a prompt. @throws {Stopped} when the person cancelled the prompt */
function answered<Value extends string | boolean>(answer: Value | symbol): Value {
  if (isCancel(answer)) throw new Stopped('unconfirmed', 'Nothing was done.');
  return answer as Value;
}
