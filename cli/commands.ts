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
import { sourceCommands } from './commands/sources.ts';
import { storageCommands } from './commands/storage.ts';
import { workflowCommands } from './commands/workflows.ts';

export const commands: readonly Command[] = [
  ...localCommands,
  devCommand,
  completionCommand(() => commands),
  ...appCommands,
  moveCommand,
  ...deployCommands,
  ...previewCommands,
  ...sourceCommands,
  ...logCommands,
  ...cronCommands,
  ...workflowCommands,
  ...settingCommands,
  ...storageCommands,
  ...machineCommands,
  ...hostCommands,
];
