// The only list of all commands.
import type { Command } from './command.ts';
import { appCommands } from './commands/apps.ts';
import { completionCommand } from './commands/completion.ts';
import { cronCommands } from './commands/crons.ts';
import { deployCommands } from './commands/deploys.ts';
import { devCommand } from './commands/dev.ts';
import { hostCommands } from './commands/hosts.ts';
import { localCommands } from './commands/local.ts';
import { logCommands } from './commands/logs.ts';
import { machineCommands } from './commands/machine.ts';
import { moveCommand } from './commands/move.ts';
import { previewCommands } from './commands/previews.ts';
import { settingCommands } from './commands/settings.ts';
import { storageCommands } from './commands/storage.ts';
import { varCommands } from './commands/vars.ts';
import { workflowCommands } from './commands/workflows.ts';
import { gitCredentialCommand } from './git-credential.ts';

export const commands: readonly Command[] = [
  ...localCommands,
  gitCredentialCommand,
  devCommand,
  completionCommand(() => commands),
  ...appCommands,
  moveCommand,
  ...deployCommands,
  ...previewCommands,
  ...logCommands,
  ...cronCommands,
  ...workflowCommands,
  ...settingCommands,
  ...varCommands,
  ...storageCommands,
  ...machineCommands,
  ...hostCommands,
];
