// Commands for what an app's Worker has in `env`: its variables, their overrides, and its bindings.
import { type Command, command, textOf } from '../command.ts';
import { Stopped } from '../exit.ts';
import { plain } from '../show.ts';
import { givenValue, listCommand } from './settings.ts';

const name = { name: 'name', summary: 'the name of the variable' } as const;

export const varCommands: readonly Command[] = [
  listCommand({
    words: 'vars list',
    summary: "Lists the Worker's variables: the variables of its configuration, and their overrides",
    examples: ['vars'],
    answers: 'vars.list',
    read: (session, asked) => session.call('vars.list', asked),
    columns: [
      ['NAME', ({ name }) => name],
      ['FROM', ({ override }) => (override === null ? 'configuration' : 'override')],
      ['VALUE', ({ value }) => shownValue(value)],
    ],
  }),
  listCommand({
    words: 'bindings',
    summary: 'Lists the bindings of the Worker of the live release, without its variables and secrets',
    examples: ['bindings'],
    answers: 'bindings.list',
    read: (session, asked) => session.call('bindings.list', asked),
    columns: [
      ['NAME', ({ name }) => name],
      ['TYPE', ({ type }) => type],
      ['LEADS TO', ({ target }) => target ?? '-'],
    ],
  }),
  command({
    words: 'vars set',
    summary:
      'Overrides a variable, also for later deploys; a running app is restarted with the value at once',
    ofApp: true,
    arguments: [
      name,
      { name: 'value', summary: 'the value; left out, it is read from standard input', optional: true },
    ],
    options: [{ flags: '--as-json', summary: 'the value is JSON, such as true or [1, 2], instead of text' }],
    examples: ['vars set API_URL https://api.example.com', 'vars set LIMITS \'{"max": 5}\' --as-json'],
    answers: 'vars.set',
    run: async (session, input) => {
      const text = await givenValue(session, input);
      const value = input.asJson === true ? jsonOf(text, 'vars set') : text;
      return session.call('vars.set', { id: session.app(), name: String(input.name), value });
    },
    show: ({ name, problem }) => (problem === null ? `${name} is set` : `${name} is stored. ${problem}`),
  }),
  command({
    words: 'vars unset',
    summary: 'Removes an override: the variable has the value of the configuration again',
    ofApp: true,
    arguments: [name],
    examples: ['vars unset API_URL'],
    answers: 'vars.unset',
    run: (session, { name }) => session.call('vars.unset', { id: session.app(), name: String(name) }),
    show: ({ problem }) => problem ?? 'The variable has the value of the configuration again',
  }),
  command({
    words: 'previews vars',
    summary: 'Sets all overrides of variables of previews; previews do not get the overrides of the app',
    ofApp: true,
    arguments: [{ name: 'overrides', summary: 'values by name, as a JSON object; {} removes all' }],
    examples: ['previews vars \'{"API_URL": "https://test.example.com"}\''],
    answers: 'previews.set',
    run: (session, input) => {
      const vars = jsonOf(textOf(input, 'overrides')!, 'previews vars');
      return session.call('previews.set', { id: session.app(), vars: vars as Record<string, unknown> });
    },
    show: ({ vars }) => `Previews have these overrides: ${shownValue(vars)}`,
  }),
];

/** Parses JSON. @throws {Stopped} for a text that is not JSON */
function jsonOf(text: string, words: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Stopped('usage', `${plain(text)} is not JSON.`, `cellar ${words} --help`);
  }
}

function shownValue(value: unknown): string {
  return plain(typeof value === 'string' ? value : JSON.stringify(value));
}
