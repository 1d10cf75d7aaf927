// Other people's proxies in front of a Cellar, set up as `docs/proxies.md` says.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { dieWithParent } from '../../../runtime/isolation/users.ts';
import { ownPort } from '../ports.ts';
import { eventually } from './processes.ts';

const RECIPES = readFileSync(new URL('../../../docs/proxies.md', import.meta.url), 'utf8');

/** Where the Cellar listens that a proxy stands before, and where the proxy's files go. */
export interface Behind {
  apiPort: number;
  edgePort: number;
  directory: string;
}

/** A proxy that serves plain HTTP on a port. */
export interface OtherProxy extends AsyncDisposable {
  port: number;
}

/** Starts Caddy with the recipe, without TLS. */
export async function startCaddy(behind: Behind): Promise<OtherProxy> {
  const port = ownPort();
  const config = recipe('caddyfile', behind, [
    ['{\n', '{\n\tadmin off\n\tdefault_bind 127.0.0.1\n'],
    ['https:// {', `http://:${port} {`],
  ]);
  const path = placed(behind, 'Caddyfile', config);
  return started(port, ['caddy', 'run', '--adapter', 'caddyfile', '--config', path]);
}

/** Starts nginx with the recipe. */
export async function startNginx(behind: Behind): Promise<OtherProxy> {
  const port = ownPort();
  const server = recipe('nginx', behind, [
    ['listen 80;', `listen 127.0.0.1:${port};`],
    ['server_name apps.example.com *.apps.example.com;', 'server_name localhost *.localhost;'],
  ]);
  const own = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${name};`,
  );
  const config = `daemon off; master_process off; pid pid; error_log stderr warn; events {}
http {\naccess_log off;\n${own.join('\n')}\n${server}\n}\n`;
  const path = placed(behind, 'nginx.conf', config);
  return started(port, ['nginx', '-p', join(path, '..'), '-e', 'stderr', '-c', path]);
}

/** A recipe of the documentation with this test's places in it. */
function recipe(language: string, behind: Behind, places: [from: string, to: string][]): string {
  let text = RECIPES.match(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\``, 'm'))![1]!;
  for (const [from, to] of places) {
    if (!text.includes(from)) throw new Error(`the recipe for ${language} has no ${JSON.stringify(from)}`);
    text = text.replace(from, to);
  }
  return text
    .replaceAll('127.0.0.1:8080', `127.0.0.1:${behind.apiPort}`)
    .replaceAll('127.0.0.1:8787', `127.0.0.1:${behind.edgePort}`);
}

function placed({ directory }: Behind, name: string, text: string): string {
  const path = join(mkdtempSync(join(directory, 'proxy-')), name);
  writeFileSync(path, text);
  return path;
}

/** Runs a proxy until it takes connections on `port`. */
async function started(port: number, command: string[]): Promise<OtherProxy> {
  const [program, ...words] = [...dieWithParent(), ...command];
  const directory = join(command.at(-1)!, '..');
  const child = spawn(program!, words, {
    cwd: directory,
    env: { HOME: directory, PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr!.setEncoding('utf8').on('data', (text) => {
    said += text;
  });
  await eventually(() => {
    if (child.exitCode !== null) throw new Error(`${command[0]} ended: ${said}`);
    return takesConnections(port);
  }, `${command[0]} listens`);
  return { port, [Symbol.asyncDispose]: () => ended(child) };
}

function takesConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  process.kill(-child.pid!, 'SIGKILL');
  await exited;
}

/** Passes connections on to the edge as they are, and looks at something at each request: whether it came too early. */
export class EdgeWatch implements AsyncDisposable {
  /** What was seen at each request, in order. */
  readonly seen: boolean[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  constructor(edgePort: number, look: () => boolean) {
    this.#server = createServer((from) => {
      const to = connect(edgePort, '127.0.0.1');
      from.on('data', (chunk) => {
        if (/^[A-Z]+ \S+ HTTP\/1\.1\r\n/.test(chunk.toString('latin1'))) this.seen.push(look());
      });
      from.pipe(to).pipe(from);
      for (const [socket, other] of [
        [from, to],
        [to, from],
      ] as const) {
        this.#sockets.add(socket);
        socket.on('error', () => other.destroy());
        socket.on('close', () => this.#sockets.delete(socket));
      }
    });
  }

  /** Resolves with its port. */
  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return (this.#server.address() as { port: number }).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}
