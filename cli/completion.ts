// Generates shell completion from the commands.
import { type Command, optionsOf } from './command.ts';

export const shells = ['bash', 'zsh', 'fish'] as const;

/** A possible next word, and its description. */
interface Word {
  word: string;
  about: string;
}

export function completion(shell: (typeof shells)[number], commands: readonly Command[]): string {
  return { bash, zsh, fish }[shell](commands);
}

/** Returns the possible next words after each part of a command: '', 'env', 'env set'. */
function casesOf(commands: readonly Command[]): Map<string, Word[]> {
  const cases = new Map<string, Word[]>([['', [{ word: 'help', about: 'Shows how a command is used' }]]]);
  const add = (before: string, { word, about }: Word) => {
    const known = cases.get(before) ?? [];
    if (!known.some((each) => each.word === word)) cases.set(before, [...known, { word, about }]);
  };
  for (const command of commands) {
    const [first, second] = command.words.split(' ') as [string, string?];
    add('', { word: first, about: command.summary });
    if (second !== undefined) add(first, { word: second, about: command.summary });
    for (const { choices, summary } of command.arguments ?? [])
      for (const word of choices ?? []) add(command.words, { word, about: summary });
    for (const { flags, summary } of optionsOf(command))
      for (const word of flagsOf(flags)) add(command.words, { word, about: summary });
    add(command.words, { word: '--help', about: 'display help for command' });
  }
  add('', { word: '--version', about: 'print the version' });
  return cases;
}

function bash(commands: readonly Command[]): string {
  const cases = casesOf(commands);
  const arms = [...cases].map(
    ([before, words]) => `    '${before}') words='${words.map(({ word }) => word).join(' ')}' ;;`,
  );
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

/** Returns a script that works as a file `_cellar` in `$fpath`, and with `source`. */
function zsh(commands: readonly Command[]): string {
  const arms = [...casesOf(commands)].map(([before, words]) => {
    const shown = words.map(
      ({ word, about }) => `      ${zshQuoted(`${word}:${about.replaceAll(':', '\\:')}`)}`,
    );
    return `    '${before}') next=(\n${shown.join('\n')}\n    ) ;;`;
  });
  return `#compdef cellar
_cellar() {
  local -a given next
  given=("\${(@)words[2,CURRENT-1]}")
  # The command is the first word, or the first two, whatever options and values follow.
  local at
  for at in "\${(j: :)given[1,2]}" "\${given[1]}"; do
    case "$at" in
${arms.join('\n')}
    esac
    (( \${#next} )) && break
  done
  (( \${#next} )) && _describe 'cellar' next || _files
}
if [ "\${funcstack[1]}" = _cellar ]; then _cellar "$@"; else compdef _cellar cellar; fi
`;
}

function fish(commands: readonly Command[]): string {
  const lines = [
    '# The words before the cursor are these alone, or begin with these.',
    'function __cellar_at; set -l given (commandline -opc)[2..]; test "$given" = "$argv"; end',
    'function __cellar_in; set -l given (commandline -opc)[2..]; string match -q -- "$argv *" "$given "; end',
  ];
  const groups = new Set<string>();
  const offer = (condition: string, rest: string, about: string) =>
    lines.push(`complete -c cellar -n '${condition}' ${rest} -d ${fishQuoted(about)}`);
  for (const command of commands) {
    const [first, second] = command.words.split(' ') as [string, string?];
    if (!groups.has(first)) offer('__cellar_at', `-f -a ${first}`, command.summary);
    groups.add(first);
    if (second !== undefined) offer(`__cellar_at ${first}`, `-f -a ${second}`, command.summary);
    const inside = `__cellar_in ${command.words}`;
    // Offers files only if an argument has no fixed choices.
    const given = command.arguments ?? [];
    if (given.every(({ choices }) => choices !== undefined))
      lines.push(`complete -c cellar -n '${inside}' -f`);
    for (const { choices, summary } of given)
      if (choices) offer(inside, `-a ${fishQuoted(choices.join(' '))}`, summary);
    for (const { flags, summary } of optionsOf(command)) {
      const [long, short] = [/--([\w-]+)/.exec(flags)![1], /^-(\w),/.exec(flags)?.[1]];
      offer(inside, `-l ${long}${short ? ` -s ${short}` : ''}${flags.includes('<') ? ' -r' : ''}`, summary);
    }
  }
  return `${lines.join('\n')}\n`;
}

function zshQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

function flagsOf(flags: string): string[] {
  return flags.match(/--?[\w-]+/g)!.filter((word) => word.startsWith('-'));
}
