// Generates pages of `docs/` from the code: `npm run docs`. A test checks that they are up to date.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { commands } from '../cli/commands.ts';
import { commandReference, exitRows, sharedOptionRows } from '../cli/reference.ts';
import { unanswered } from '../handlers/cloudflare/unanswered.ts';
import { operations } from '../handlers/contract/index.ts';
import type { Operation } from '../handlers/contract/operation.ts';
import { settings } from '../runtime/settings.ts';

// Dynamic import: these modules are written for workerd, whose types are not available here.
const { calls } = (await import(new URL('../handlers/cloudflare/index.ts', import.meta.url).href)) as {
  calls: { method: string; path: string; needs: string }[];
};
const MADE = '<!-- Made by `npm run docs`. Change the code, not this page. -->';
const declared: readonly Operation[] = operations;

/** Returns the text of each generated page, by path. */
export function pages(): Record<string, string> {
  return {
    'docs/settings.md': settingsPage(),
    'docs/operations-of-the-api.md': operationsPage(),
    'docs/cli.md': cliPage(),
    'docs/wrangler-calls.md': callsPage(),
  };
}

function settingsPage(): string {
  const rows = Object.entries(settings).map(([name, { default: value, meaning }]) => {
    const shown = value === '' ? '' : `\`${value}\``;
    return `| \`${name}\` | ${shown} | ${meaning} |\n`;
  });
  return `# Settings

${MADE}

Environment variables of \`npm start\`. A bad value stops the start, which names every bad setting at once.
Off \`localhost\`, \`RUNNER_TOKEN\` must be set.

| Setting | Default | Meaning |
| --- | --- | --- |
${rows.join('')}`;
}

function operationsPage(): string {
  const rows = declared.map(({ name, method, path, needs, summary }) => {
    const rest = path === null ? '' : `\`${method} ${path.replace(/:(\w+)\+?/g, '{$1}')}\``;
    return `| \`${name}\` | ${rest} | ${needs} | ${summary} |\n`;
  });
  return `# Operations of the API

${MADE}

Each is a JSON-RPC method at \`POST /rpc\`, and those with a route are REST too. *Needs*: the least role on the app, the
\`runner\` token, or any \`account\` for what is its own. \`GET /openapi.json\` has the inputs and answers.

| RPC | REST | Needs | |
| --- | --- | --- | --- |
${rows.join('')}`;
}

function callsPage(): string {
  const answered = calls.map(
    ({ method, path, needs }) => `| \`${method} ${path.replace(/:(\w+)\+?/g, '{$1}')}\` | ${needs} |\n`,
  );
  const others = unanswered.map(
    ({ method, path, what, why }) => `| \`${method ? `${method} ` : ''}${path}\` | ${what} | ${why} |\n`,
  );
  return `# Cloudflare's calls

${MADE}

What Cellar answers of Cloudflare's API, below \`/client/v4\`, for [Wrangler](wrangler.md). *Needs*: the least role on the app, as in [the API](operations-of-the-api.md); any
\`account\`, for what is its own; or \`none\`, where the path itself has a secret.

| Answered | Needs |
| --- | --- |
${answered.join('')}
Any other call is answered with an error that names it. Of those that Wrangler makes, these are not answered:

| Not answered, from | What | Why |
| --- | --- | --- |
${others.join('')}`;
}

function cliPage(): string {
  return `# The command line

${MADE}

\`cellar\` deploys apps and looks after them. In a clone of Cellar, \`npx cellar\` runs it; \`npm install -g .\` there (with
\`--prefix ~/.local\` where npm's own folder is not yours) puts it on the path. It finds the running Cellar of the same
clone, or the one whose data is in \`RUNNER_DATA_DIR\`, on any port. \`cellar login\` stores the address and token of
another one. \`CELLAR_URL\` and \`CELLAR_TOKEN\` (the runner token, or an account's API key) take precedence over the stored
ones. The URL has a scheme, as in \`http://localhost:8080\`, and no user name or password.

The app that a command is about is \`--app\`, else that of the folder's git remote \`cellar\` (\`cellar init\` makes it), else the
name in the folder's Wrangler configuration. Standard output has data only; progress, questions and errors go to standard error. An
error names the command that helps on. \`cellar env\` is \`cellar env list\`, and so on. \`cellar completion\` prints the completion
for bash, zsh and fish.

| Option | |
| --- | --- |
${sharedOptionRows()}
With \`--json\`, the answer has the shape that the named operation has in \`GET /openapi.json\`; a list is whole, with all its pages.
Without a terminal, a command that destroys something fails unless \`--yes\` is given.

| Exit code | |
| --- | --- |
${exitRows()}
After SIGTERM the exit code is 143, and after SIGHUP 129. A deploy that is cut off by a signal still revokes its temporary API key.

\`cellar deploy\` is refused if git cannot read the repository around the folder. In CI, the checkout may belong to another
user: allow git to use it with \`git config --global --add safe.directory <folder>\`. The next \`cellar deploy\` repeats a
failed deploy of the same commit.

## Commands

${commandReference(commands)}`;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  for (const [path, text] of Object.entries(pages()))
    writeFileSync(join(import.meta.dirname, '..', path), text);
}
