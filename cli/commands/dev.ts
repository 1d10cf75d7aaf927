// Serves an app on this machine for development, in a process of its own that needs no running Cellar.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { patientFetch, refusalOf } from '../../client/index.ts';
import { type Command, type Input, textCommand, textOf } from '../command.ts';
import { Stopped } from '../exit.ts';
import type { Session } from '../session.ts';

export const devCommand: Command = textCommand({
  words: 'dev',
  summary:
    "Serves the folder's app on this machine as in production, and reloads the app at each save; needs no running Cellar",
  options: [
    {
      flags: '--port <port>',
      summary: 'where it answers, on localhost; 8787 by default, 0 for any that is free',
    },
    { flags: '--inspect [port]', summary: 'accepts a debugger on localhost; by default at port 9229' },
    {
      flags: '--remote-data',
      summary: 'starts with a copy of the data of the deployed app',
    },
    { flags: '-e, --env <name>', summary: 'the environment of the Wrangler configuration' },
  ],
  ofApp: true,
  examples: ['dev', 'dev --port 3000 --inspect', 'dev --remote-data'],
  run: async (session, input) => {
    const { place } = session;
    const copied = input.remoteData === true ? await copyOf(session) : null;
    const options = {
      folder: place.folder,
      port: portOf(input, 'port'),
      inspect: input.inspect === true ? 9229 : portOf(input, 'inspect'),
      environment: textOf(input, 'env') ?? place.env.CLOUDFLARE_ENV ?? null,
      isOnCopy: copied !== null,
    };
    const child = spawn(
      process.execPath,
      ['--no-warnings', join(place.root, 'runtime', 'dev', 'main.ts'), JSON.stringify(options)],
      // The IPC channel closes when this process ends, even by a crash. The child then ends too.
      {
        cwd: place.folder,
        env: place.env,
        stdio: [copied === null ? 'ignore' : 'pipe', 'inherit', 'inherit', 'ipc'],
      },
    );
    // The child reports an incomplete copy, so errors of the stream are ignored here.
    if (copied !== null) pipeline(Readable.fromWeb(copied), child.stdin!).catch(() => {});
    // A terminal sends Ctrl-C to the child too. A SIGINT to this process alone must be passed on.
    place.signal.addEventListener('abort', () => child.kill('SIGTERM'));
    const [code] = (await once(child, 'exit')) as [number | null];
    if (code !== 0 && !place.signal.aborted)
      throw new Stopped('failed', 'The app is not served. The lines above say why.');
    return '';
  },
});

/** Returns a stream with a copy of the app's storage. @throws {Refused} when the API refuses it */
async function copyOf(session: Session): Promise<ReadableStream<Uint8Array>> {
  const { login, place } = session;
  const { id, slug } = await session.call('apps.get', { id: session.app() });
  place.say(`Copying the data of ${slug}\n`);
  const patient = await patientFetch();
  const response = await patient(`${login.url}/v1/apps/${id}/storage/copy`, {
    headers: { authorization: `Bearer ${login.token}` },
    signal: place.signal,
  });
  if (!response.ok) throw await refusalOf(response);
  return response.body!;
}

function portOf(input: Input, name: string): number | null {
  const text = textOf(input, name);
  if (text === undefined) return null;
  if (/^\d{1,5}$/.test(text) && Number(text) < 65_536) return Number(text);
  throw new Stopped('usage', `--${name} needs a port from 0 to 65535, not ${text}.`, 'cellar dev --help');
}
