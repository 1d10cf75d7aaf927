// Commands for an app's Workflows and their instances.
import { INSTANCE_STATUSES } from '../../handlers/contract/storage/workflows.ts';
import { type Command, command, type Input, textOf } from '../command.ts';
import { Stopped } from '../exit.ts';
import { whole } from '../session.ts';
import { ago, bytes, fields, plain, status, table } from '../show.ts';

const workflow = { name: 'workflow', summary: 'the name of the Workflow, as `cellar workflows` lists it' };
const instance = { name: 'instance', summary: 'the id of the instance' };
const PAGE = 50;

function named(session: Parameters<Command['run']>[0], input: Input) {
  return { id: session.app(), workflow: String(input.workflow), instance: String(input.instance) };
}

/** Parses JSON from the command line. @param what its name in the message @throws {Stopped} for a text that is not JSON */
function json(text: string | undefined, what: string): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    throw new Stopped('usage', `${what} must be JSON, such as {"to": "Ada"}.`, 'cellar help workflows');
  }
}

/** Declares a command that changes an instance of a Workflow. */
function change(verb: 'pause' | 'resume' | 'terminate' | 'restart', summary: string): Command {
  return command({
    words: `workflows ${verb}`,
    summary,
    ofApp: true,
    arguments: [workflow, instance],
    examples: [`workflows ${verb} orders order-17`],
    answers: `workflows.instances.${verb}`,
    run: (session, input) => session.call(`workflows.instances.${verb}`, named(session, input)),
    show: ({ id, status: word }) => `${plain(id)}  ${status(word)}`,
  });
}

export const workflowCommands: readonly Command[] = [
  command({
    words: 'workflows list',
    summary: 'Lists the Workflows of the live release',
    ofApp: true,
    examples: ['workflows'],
    answers: 'workflows.list',
    run: (session) => {
      const id = session.app();
      return whole((page) => session.call('workflows.list', { id, ...page }));
    },
    show: ({ items }) =>
      table(
        ['NAME', 'CLASS', 'BINDING', 'INSTANCES', 'SIZE'],
        items.map((each) => [
          each.name,
          each.class_name,
          each.binding,
          String(each.instances),
          bytes(each.bytes),
        ]),
        'The live release has no Workflows.',
      ),
  }),
  command({
    words: 'workflows instances',
    summary: 'Lists the newest instances of a Workflow',
    ofApp: true,
    arguments: [workflow],
    options: [
      { flags: '--status <status>', summary: 'only instances with this status', choices: INSTANCE_STATUSES },
    ],
    examples: ['workflows instances orders', 'workflows instances orders --status errored'],
    answers: 'workflows.instances.list',
    run: (session, input) => {
      const word = INSTANCE_STATUSES.find((each) => each === textOf(input, 'status'));
      return session.call('workflows.instances.list', {
        id: session.app(),
        workflow: String(input.workflow),
        limit: PAGE,
        ...(word && { status: word }),
      });
    },
    show: ({ items, next_cursor }) =>
      `${table(
        ['INSTANCE', 'STATUS', 'CREATED', 'CHANGED'],
        items.map((each) => [
          plain(each.id),
          status(each.status),
          ago(each.created_at),
          ago(each.changed_at),
        ]),
        'No instances.',
      )}${next_cursor === null ? '' : '\n(more instances)'}`,
  }),
  command({
    words: 'workflows show',
    summary: 'Shows an instance: its steps and its result',
    ofApp: true,
    arguments: [workflow, instance],
    examples: ['workflows show orders order-17'],
    answers: 'workflows.instances.get',
    run: (session, input) => session.call('workflows.instances.get', named(session, input)),
    show: ({ id, steps, steps_left_out, ...each }) =>
      [
        fields([
          ['instance', plain(id)],
          ['status', status(each.status)],
          ['created', ago(each.created_at)],
          ['params', plain(JSON.stringify(each.params))],
          ['output', each.output === null ? null : plain(JSON.stringify(each.output))],
          ['error', each.error && plain(`${each.error.name}: ${each.error.message}`)],
          ['left out', steps_left_out === 0 ? null : `the first ${steps_left_out} steps`],
        ]),
        table(
          ['STEP', 'KIND', 'STATUS', 'TRIES', 'BEGAN', 'DUE', 'GAVE'],
          steps.map((step) => [
            plain(step.count === 1 ? step.name : `${step.name} (${step.count})`),
            step.type,
            status(step.status),
            step.attempts === null ? '-' : String(step.attempts),
            ago(step.started_at),
            ago(step.due_at),
            plain(step.error === null ? JSON.stringify(step.output) : step.error.message),
          ]),
          'The instance has not reached a step.',
        ),
      ].join('\n\n'),
  }),
  command({
    words: 'workflows run',
    summary: 'Makes an instance, which runs at once',
    ofApp: true,
    arguments: [
      workflow,
      { name: 'params', summary: 'the parameters of the instance, as JSON', optional: true },
    ],
    options: [{ flags: '--id <id>', summary: 'the id of the instance; by default a new one' }],
    examples: [`workflows run orders '{"order": 17}' --id order-17`],
    answers: 'workflows.instances.create',
    run: (session, input) => {
      const params = json(textOf(input, 'params'), 'The parameters');
      return session.call('workflows.instances.create', {
        id: session.app(),
        workflow: String(input.workflow),
        instance: textOf(input, 'id'),
        ...(params !== undefined && { params }),
      });
    },
    show: ({ id, status: word }) => `${plain(id)}  ${status(word)}`,
  }),
  change('pause', 'Pauses an instance: lets a running step end first'),
  change('resume', 'Resumes a paused instance'),
  change('terminate', 'Ends an instance'),
  change('restart', 'Runs an instance from its beginning'),
  command({
    words: 'workflows send',
    summary: 'Sends an event to an instance',
    ofApp: true,
    arguments: [
      workflow,
      instance,
      { name: 'type', summary: 'the type of event that the instance waits for' },
      { name: 'payload', summary: 'the data of the event, as JSON', optional: true },
    ],
    examples: [`workflows send orders order-17 paid '{"amount": 3}'`],
    answers: 'workflows.instances.send_event',
    run: (session, input) => {
      const payload = json(textOf(input, 'payload'), 'The payload');
      return session.call('workflows.instances.send_event', {
        ...named(session, input),
        type: String(input.type),
        ...(payload !== undefined && { payload }),
      });
    },
    show: ({ id, status: word }) => `${plain(id)}  ${status(word)}`,
  }),
  command({
    words: 'workflows delete',
    summary: 'Deletes an instance and its data',
    ofApp: true,
    arguments: [workflow, instance],
    examples: ['workflows delete orders order-17 --yes'],
    answers: 'workflows.instances.delete',
    destroys: ({ instance: name }) => `Delete the instance ${name}?`,
    run: (session, input) => session.call('workflows.instances.delete', named(session, input)),
  }),
];
