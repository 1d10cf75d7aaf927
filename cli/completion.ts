// Completion for shells, made from the commands.
import { type Command, optionsOf } from './command.ts';

export const shells = ['bash', 'zsh', 'fish'] as const;

/** The completion of a shell, as it reads it. */
export function completion(shell: (typeof shells)[number], commands: readonly Command[]): string {
  if (shell === 'fish') return fish(commands);
  const cases = casesOf(commands);
  return shell === 'bash'
    ? bash(cases)
    : `#compdef cellar\nautoload -U +X bashcompinit && bashcompinit\n${bash(cases)}`;
}

/** What may come behind each beginning of a command. */
function casesOf(commands: readonly Command[]): Map<string, string[]> {
  const cases = new Map<string, string[]>([['', ['help', '--version']]]);
  const add = (before: string, words: readonly string[]) => {
    const known = cases.get(before) ?? [];
    cases.set(before, [...known, ...words.filter((word) => !known.includes(word))]);
  };
  for (const command of commands) {
    const [first, second] = command.words.split(' ') as [string, string?];
    add('', [first]);
    if (second !== undefined) add(first, [second]);
    const choices = (command.arguments ?? []).flatMap((argument) => argument.choices ?? []);
    add(command.words, [...choices, ...optionsOf(command).flatMap(({ flags }) => flagsOf(flags)), '--help']);
  }
  return cases;
}

function bash(cases: Map<string, string[]>): string {
  const arms = [...cases].map(([before, words]) => `    '${before}') words='${words.join(' ')}' ;;`);
  return `_cellar() {
  local words
  local at="\${COMP_WORDS[*]:1:COMP_CWORD-1}"
  local two="\${COMP_WORDS[*]:1:2}" one="\${COMP_WORDS[1]}"
  case " ${[...cases.keys()].filter((key) => key !== '').join(' , ')} " in
    *" $at "*) ;;
    *" $two "*) at=$two ;;
    *" $one "*) at=$one ;;
    *) [ -n "$at" ] && return ;;
  esac
  case "$at" in
${arms.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _cellar cellar
`;
}

function fish(commands: readonly Command[]): string {
  const lines = ['complete -c cellar -f'];
  const groups = new Set<string>();
  for (const command of commands) {
    const [first, second] = command.words.split(' ') as [string, string?];
    const about = command.summary.replaceAll("'", "\\'");
    if (second === undefined)
      lines.push(`complete -c cellar -n __fish_use_subcommand -a ${first} -d '${about}'`);
    else {
      if (!groups.has(first)) lines.push(`complete -c cellar -n __fish_use_subcommand -a ${first}`);
      groups.add(first);
      lines.push(`complete -c cellar -n '__fish_seen_subcommand_from ${first}' -a ${second} -d '${about}'`);
    }
    const seen = `'__fish_seen_subcommand_from ${second ?? first}'`;
    for (const { flags, summary } of optionsOf(command)) {
      const [long, short] = [/--([\w-]+)/.exec(flags)![1], /^-(\w),/.exec(flags)?.[1]];
      const takes = flags.includes('<') ? ' -r' : '';
      const text = summary.replaceAll("'", "\\'");
      lines.push(
        `complete -c cellar -n ${seen} -l ${long}${short ? ` -s ${short}` : ''}${takes} -d '${text}'`,
      );
    }
  }
  return `${lines.join('\n')}\n`;
}

function flagsOf(flags: string): string[] {
  return flags.match(/--?[\w-]+/g)!.filter((word) => word.startsWith('-'));
}
