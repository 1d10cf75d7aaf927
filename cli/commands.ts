// The only list of all commands.
import type { Command } from './command.ts';
import { alertCommands } from './commands/alerts.ts';
import { appCommands } from './commands/apps.ts';
import { completionCommand } from './commands/completion.ts';
import { cronCommands } from './commands/crons.ts';
import { deployCommands } from './commands/deploys.ts';
import { devCommand } from './commands/dev.ts';
import { localCommands } from './commands/local.ts';
import { logCommands } from './commands/logs.ts';
import { auditCommands } from './commands/machine/audit.ts';
import { hostCommands } from './commands/machine/hosts.ts';
import { machineCommands } from './commands/machine/machine.ts';
import { moveCommand } from './commands/machine/move.ts';
import { previewCommands } from './commands/previews.ts';
import { requestCommands } from './commands/requests.ts';
import { settingCommands } from './commands/settings.ts';
import { sourceCommands } from './commands/sources.ts';
import { storageCommands } from './commands/storage.ts';
import { varCommands } from './commands/vars.ts';
import { workflowCommands } from './commands/workflows.ts';
import { gitCredentialCommand } from './git/git-credential.ts';

export const commands: readonly Command[] = [
  ...localCommands,
  gitCredentialCommand,
  devCommand,
  completionCommand(() => commands),
  ...appCommands,
  moveCommand,
  ...deployCommands,
  ...previewCommands,
  ...sourceCommands,
  ...logCommands,
  ...requestCommands,
  ...cronCommands,
  ...workflowCommands,
  ...settingCommands,
  ...varCommands,
  ...alertCommands,
  ...storageCommands,
  ...machineCommands,
  ...auditCommands,
  ...hostCommands,
];
