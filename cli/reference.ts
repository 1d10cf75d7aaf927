// Generates docs/cli.md from the commands.
import { type Command, optionsOf, sharedOptions } from './command.ts';
import { exits } from './exit.ts';

/** Returns a section for each command. */
export function commandReference(commands: readonly Command[]): string {
  return commands.map(sectionOf).join('\n');
}

/** Returns the shared options, as rows of a table. */
export function sharedOptionRows(): string {
  return Object.values(sharedOptions)
    .map(({ flags, summary }) => `| \`${flags}\` | ${summary} |\n`)
    .join('');
}

/** Returns the exit codes, as rows of a table. */
export function exitRows(): string {
  return Object.values(exits)
    .map(({ code, meaning }) => `| ${code} | ${meaning} |\n`)
    .join('');
}

function sectionOf(command: Command): string {
  const given = command.arguments ?? [];
  const usage = given.map(({ name, optional }) => (optional ? ` [${name}]` : ` <${name}>`)).join('');
  const shared = Object.values(sharedOptions) as readonly object[];
  const own = optionsOf(command).filter((option) => !shared.includes(option));
  const rows = [
    ...given.map(({ name, summary, choices }) => `- \`${name}\`: ${summary}${choicesOf(choices)}\n`),
    ...own.map(({ flags, summary, choices }) => `- \`${flags}\`: ${summary}${choicesOf(choices)}\n`),
  ];
  const answers = command.answers === null ? '' : ` \`--json\`: as \`${command.answers}\`.`;
  const examples = command.examples.map((line) => `    cellar ${line}\n`).join('');
  return `### cellar ${command.words}${usage}

${command.summary}.${answers}

${rows.length > 0 ? `${rows.join('')}\n` : ''}${examples}`;
}

function choicesOf(choices: readonly string[] | undefined): string {
  return choices === undefined ? '' : ` (${choices.map((choice) => `\`${choice}\``).join(', ')})`;
}
