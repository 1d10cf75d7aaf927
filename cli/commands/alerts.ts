// Commands for alerts: messages about an app to a webhook or an e-mail address.
import { ALERT_FORMATS } from '../../handlers/contract/telemetry/alert-format.ts';
import {
  ALERT_KINDS,
  ALERT_THRESHOLDS,
  THRESHOLD_NAMES,
} from '../../handlers/contract/telemetry/alert-kinds.ts';
import type { Alert } from '../../handlers/contract/telemetry/alerts.ts';
import { type Command, command, type Input, textOf } from '../command.ts';
import { Stopped } from '../exit.ts';
import { whole } from '../session.ts';
import { ago, fields, plain, table } from '../show.ts';

const alert = { name: 'alert', summary: 'the id of the alert, as `cellar alerts` lists it' } as const;

/** The options for thresholds. `flag` is the long flag, `name` its key in `Input`, `field` its name in the API. */
const THRESHOLDS = THRESHOLD_NAMES.map((field) => {
  const { meaning, least, most, initial } = ALERT_THRESHOLDS[field];
  return {
    ...{ field, least, most },
    flag: field.replaceAll('_', '-'),
    name: field.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
    summary: `${meaning.charAt(0).toLowerCase()}${meaning.slice(1)}; by default ${initial}`,
  };
});

export const alertCommands: readonly Command[] = [
  command({
    words: 'alerts list',
    summary: "Lists an app's alerts, each with its last delivery",
    ofApp: true,
    examples: ['alerts', 'alerts list --app shop'],
    answers: 'alerts.list',
    run: (session) => {
      const id = session.app();
      return whole((page) => session.call('alerts.list', { id, ...page }));
    },
    show: ({ items }) =>
      table(
        ['ALERT', 'TO', 'FORMAT', 'LAST', 'FIRES', 'REPORTS'],
        items.map((each) => [
          each.id,
          plain(each.url),
          each.format,
          lastOf(each),
          each.firing.join(' '),
          each.on.join(' '),
        ]),
        'The app has no alerts. Next: cellar alerts set https://example.com/hook',
      ),
  }),
  command({
    words: 'alerts set',
    summary: 'Makes an alert to a webhook or an e-mail address, or changes the alert that --alert names',
    ofApp: true,
    arguments: [
      {
        name: 'to',
        summary: 'https://…, or an e-mail address; left out, the address of the alert does not change',
        optional: true,
      },
    ],
    options: [
      { flags: '--alert <alert>', summary: 'the id of the alert to change; left out, a new alert is made' },
      {
        flags: '--on <kinds>',
        summary: `the events that it reports, separated by commas: ${ALERT_KINDS.join(',')}`,
      },
      {
        flags: '--format <format>',
        summary: 'how a webhook gets messages; by default recognised from its address',
        choices: ALERT_FORMATS,
      },
      ...THRESHOLDS.map(({ flag, summary }) => ({ flags: `--${flag} <number>`, summary })),
    ],
    examples: [
      'alerts set https://hooks.slack.com/services/T0/B0/x',
      'alerts set ada@example.com --on crash,deploy',
    ],
    answers: 'alerts.set',
    run: (session, input) =>
      session.call('alerts.set', {
        id: session.app(),
        ...given('alert_id', textOf(input, 'alert')),
        ...given('url', addressOf(textOf(input, 'to'))),
        ...given('on', choicesOf(input, 'on', ALERT_KINDS)),
        ...given('format', choicesOf(input, 'format', ALERT_FORMATS)?.[0]),
        ...Object.fromEntries(THRESHOLDS.flatMap((threshold) => numberOf(input, threshold))),
      }),
    show: (made) =>
      fields([
        ['alert', made.id],
        ['to', plain(made.url)],
        ['format', made.format],
        ['reports', made.on.join(' ')],
        ['secret', made.secret],
      ]),
  }),
  command({
    words: 'alerts test',
    summary: 'Sends a test message, and prints the response of the webhook or mail server',
    ofApp: true,
    arguments: [alert],
    examples: ['alerts test 1m80abcdefghjkmn'],
    answers: 'alerts.test',
    run: async (session, { alert: alert_id }) => {
      const sent = await session.call('alerts.test', { id: session.app(), alert_id: String(alert_id) });
      if (sent.error !== null)
        throw new Stopped('failed', `The test message was not delivered: ${plain(sent.error)}`);
      return sent;
    },
    show: ({ status }) =>
      status === null ? 'The mail server accepted the test message' : `The webhook answered ${status}`,
  }),
  command({
    words: 'alerts delete',
    summary: 'Deletes an alert and its undelivered messages',
    ofApp: true,
    arguments: [alert],
    examples: ['alerts delete 1m80abcdefghjkmn --yes'],
    answers: 'alerts.delete',
    destroys: ({ alert: id }, session) => `Delete the alert ${id} of the app ${session.app()}?`,
    run: (session, { alert: alert_id }) =>
      session.call('alerts.delete', { id: session.app(), alert_id: String(alert_id) }),
  }),
];

function lastOf({ last_delivery }: Alert): string {
  if (last_delivery === null) return '';
  const { at, error } = last_delivery;
  return `${ago(at)}: ${error === null ? 'delivered' : plain(error)}`;
}

/** Returns an e-mail address as a `mailto:` URL, and any other address unchanged. */
function addressOf(to: string | undefined): string | undefined {
  return to !== undefined && !to.includes(':') && to.includes('@') ? `mailto:${to}` : to;
}

function choicesOf<Choice extends string>(
  input: Input,
  name: string,
  choices: readonly Choice[],
): Choice[] | undefined {
  return textOf(input, name)
    ?.split(',')
    .map((text) => {
      const found = choices.find((each) => each === text.trim());
      if (found === undefined)
        throw new Stopped('usage', `--${name}: ${text} is not one of ${choices.join(', ')}.`);
      return found;
    });
}

function numberOf(
  input: Input,
  { field, flag, name, least, most }: (typeof THRESHOLDS)[number],
): [string, number][] {
  const text = textOf(input, name);
  if (text === undefined) return [];
  const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= least && number <= most) return [[field, number]];
  throw new Stopped('usage', `--${flag} must be a whole number from ${least} to ${most}, not ${text}.`);
}

function given<Name extends string, Value>(name: Name, value: Value | undefined): { [name in Name]?: Value } {
  return (value === undefined ? {} : { [name]: value }) as { [name in Name]?: Value };
}
