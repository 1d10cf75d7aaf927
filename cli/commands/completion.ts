// The command that prints shell completion.
import { type Command, textCommand } from '../command.ts';
import { completion, shells } from '../completion.ts';

/** @param commands returns all commands, including this one */
export function completionCommand(commands: () => readonly Command[]): Command {
  return textCommand({
    words: 'completion',
    summary: 'Prints the completion of a shell',
    arguments: [{ name: 'shell', summary: 'which one', choices: shells }],
    examples: [
      'completion bash > ~/.local/share/bash-completion/completions/cellar',
      'completion zsh > ~/.zfunc/_cellar',
      'completion fish > ~/.config/fish/completions/cellar.fish',
    ],
    run: async (_session, { shell }) => completion(shell as (typeof shells)[number], commands()),
  });
}
