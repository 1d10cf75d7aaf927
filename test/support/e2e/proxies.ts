// Caddy and nginx in front of a Cellar, configured as `docs/proxies.md` says.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { dieWithParent } from '../../../runtime/isolation/users.ts';
import { ownPort } from '../ports.ts';
import { eventually } from '../processes.ts';

const RECIPES = readFileSync(new URL('../../../docs/proxies.md', import.meta.url), 'utf8');

/** Ports of the Cellar behind a proxy, and the directory for the proxy's files. */
export interface Behind {
  apiPort: number;
  edgePort: number;
  directory: string;
}

/** A proxy that serves plain HTTP on a port. */
export interface OtherProxy extends AsyncDisposable {
  port: number;
}

/** Starts Caddy with the configuration in `docs/proxies.md`, but without TLS. */
export async function startCaddy(behind: Behind): Promise<OtherProxy> {
  const port = ownPort();
  const config = recipe('caddyfile', behind, [
    ['{\n', '{\n\tadmin off\n\tdefault_bind 127.0.0.1\n'],
    ['https:// {', `http://:${port} {`],
  ]);
  const path = writeConfig(behind, 'Caddyfile', config);
  return startProxy(port, ['caddy', 'run', '--adapter', 'caddyfile', '--config', path]);
}

/** The certificate authority and the certificate storage that the Caddys of several hosts share. */
export interface SharedCertificates {
  /** URL of the ACME directory of a certificate authority. */
  authority: string;
  /** File with the certificate of the authority's own HTTPS server. */
  authorityRoot: string;
  /** The folder in which all Caddys store their certificates. */
  storage: string;
}

/**
 * Starts Caddy for one of several hosts, with the configuration in `docs/proxies.md`. Caddy answers the ACME challenges of
 * the authority at `httpPort`.
 */
export async function startCaddyOfHost(
  behind: Behind,
  { authority, authorityRoot, storage }: SharedCertificates,
  [port, httpPort]: [https: number, http: number],
): Promise<OtherProxy> {
  const own = `admin off\n\tdefault_bind 127.0.0.1\n\thttp_port ${httpPort}\n\thttps_port ${port}\n\t`;
  const config = recipe('caddyfile', behind, [
    [
      '{\n',
      `{\n\t${own}acme_ca ${authority}\n\tacme_ca_root ${authorityRoot}\n\tstorage file_system ${storage}\n`,
    ],
    ['https:// {', `https://:${port} {`],
  ]);
  const path = writeConfig(behind, 'Caddyfile', config);
  return startProxy(port, ['caddy', 'run', '--adapter', 'caddyfile', '--config', path]);
}

/** Starts one Caddy for several hosts, with the configuration in `docs/proxies.md`. Caddy issues its own certificates. */
export async function startCaddyOfHosts(
  edgePorts: number[],
  directory: string,
): Promise<OtherProxy & { rootCertificate: string }> {
  const [port, askPort] = [ownPort(), ownPort()];
  const hosts = edgePorts.map((edgePort) => `127.0.0.1:${edgePort}`).join(' ');
  const config = recipe('several', { apiPort: 0, edgePort: 0, directory }, [
    [
      '{\n',
      '{\n\tadmin off\n\tdefault_bind 127.0.0.1\n\tskip_install_trust\n\tauto_https disable_redirects\n',
    ],
    ['https:// {', `https://:${port} {`],
    ['on_demand\n', 'on_demand\n\t\tissuer internal\n'],
    ['10.0.0.1:8787 10.0.0.2:8787 10.0.0.3:8787', hosts],
    ['api.apps.example.com', 'api.localhost'],
  ]).replaceAll('127.0.0.1:8780', `127.0.0.1:${askPort}`);
  const path = writeConfig({ directory }, 'Caddyfile', config);
  const proxy = await startProxy(port, ['caddy', 'run', '--adapter', 'caddyfile', '--config', path]);
  const rootCertificate = join(path, '../.local/share/caddy/pki/authorities/local/root.crt');
  return { ...proxy, rootCertificate };
}

/** Starts nginx with the configuration in `docs/proxies.md`. */
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
  const path = writeConfig(behind, 'nginx.conf', config);
  return startProxy(port, ['nginx', '-p', join(path, '..'), '-e', 'stderr', '-c', path]);
}

/**
 * Returns a configuration from the documentation with the ports of this test.
 * @param language of the code block
 * @param places texts to replace; each must be in the code block
 */
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

function writeConfig({ directory }: Pick<Behind, 'directory'>, name: string, text: string): string {
  const path = join(mkdtempSync(join(directory, 'proxy-')), name);
  writeFileSync(path, text);
  return path;
}

/** Starts a proxy and waits until it accepts connections on `port`. */
async function startProxy(port: number, command: string[]): Promise<OtherProxy> {
  const [program, ...words] = [...dieWithParent(), ...command];
  const directory = join(command.at(-1)!, '..');
  const child = spawn(program!, words, {
    cwd: directory,
    env: { HOME: directory, PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let errors = '';
  child.stderr!.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  await eventually(() => {
    if (child.exitCode !== null) throw new Error(`${command[0]} ended: ${errors}`);
    return takesConnections(port);
  }, `${command[0]} listens`);
  return { port, [Symbol.asyncDispose]: () => stop(child) };
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

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  process.kill(-child.pid!, 'SIGKILL');
  await exited;
}

/** A TCP proxy to the edge. Calls `look` at each request, for example to see whether the app already runs. */
export class EdgeWatch implements AsyncDisposable {
  /** The result of `look` for each request, in order. */
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
