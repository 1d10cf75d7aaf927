// Other proxies to compare with: one thread each, in front of a unix socket, with an access log and a temporary
// directory.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { freePort } from '../../runtime/edge/caddy/caddy.ts';
import { temporary } from '../../test/support/edge/peers.ts';

export interface Proxy extends AsyncDisposable {
  /** Its name and version. */
  name: string;
  port: number;
  /** The process that carries the requests. */
  pid: number;
}

/** Timeout of a proxy's start, in ms. */
const START_MS = 10_000;
/** Connection limit of a proxy: a crowd of clients, and as many to the backend. */
const CONNECTIONS = 10_000;

/** How to run a program as a proxy. */
interface Recipe {
  /** Default: the program's name. */
  name?: string;
  program: string;
  /** Command that prints the version, digits first. */
  version: string[];
  config: (port: number, address: string, directory: string) => string;
  args: (configPath: string) => string[];
}

export const CADDY: Recipe = {
  program: 'caddy',
  version: ['version'],
  config: (port, socketPath, directory) => `{
	admin off
	auto_https off
}
http://127.0.0.1:${port} {
	bind 127.0.0.1
	log {
		output file ${directory}/access.log
	}
	reverse_proxy unix/${socketPath}
}
`,
  args: (path) => ['run', '--config', path, '--adapter', 'caddyfile'],
};

/** @param http directives of the http block @param location directives of its locations */
const nginxConfig = (
  port: number,
  socketPath: string,
  directory: string,
  http: string,
  location: string,
): string => `daemon off;
master_process off;
pid ${directory}/pid;
error_log stderr crit;
worker_rlimit_nofile ${CONNECTIONS};
events { worker_connections ${CONNECTIONS}; }
http {
  ${http}
  client_body_temp_path ${directory}/body;
  proxy_temp_path ${directory}/proxy;
  fastcgi_temp_path ${directory}/fastcgi;
  uwsgi_temp_path ${directory}/uwsgi;
  scgi_temp_path ${directory}/scgi;
  upstream cell { server unix:${socketPath}; keepalive 2000; }
  keepalive_requests 100000000;
  server {
    listen 127.0.0.1:${port} backlog=4096;
    client_max_body_size 0;
    location / {
      proxy_pass http://cell;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $remote_addr;
      ${location}
    }
  }
}
`;

export const NGINX: Recipe = {
  program: 'nginx',
  version: ['-v'],
  config: (port, socketPath, directory) =>
    nginxConfig(
      port,
      socketPath,
      directory,
      `access_log ${directory}/access.log combined buffer=64k flush=1s;`,
      '',
    ),
  args: (path) => ['-c', path],
};

/** nginx with the gateway's work per request: limits for visitor and app, ids, forwarded headers, the same log fields. */
export const BUSY_NGINX: Recipe = {
  ...NGINX,
  name: 'nginx doing as much',
  config: (port, socketPath, directory) =>
    nginxConfig(
      port,
      socketPath,
      directory,
      `log_format full escape=json '{"level":"info","ts":$msec,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"$remote_addr","client_ip":"$remote_addr","proto":"$server_protocol","host":"$host","headers":{"User-Agent":["$http_user_agent"]},"method":"$request_method","uri":"$uri"},"bytes_read":$request_length,"user_id":"","duration":$request_time,"size":$body_bytes_sent,"status":$status,"resp_headers":{"Content-Type":["$sent_http_content_type"]},"request_id":"$request_id","trace_id":"$request_id"}';
  access_log ${directory}/access.log full buffer=64k flush=1s;
  limit_req_zone $binary_remote_addr zone=visitor:10m rate=100000r/s;
  limit_req_zone $server_port zone=app:1m rate=100000r/s;`,
      `limit_req zone=visitor burst=100000 nodelay;
      limit_req zone=app burst=100000 nodelay;
      proxy_set_header X-Forwarded-Host $host;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Real-IP $remote_addr;
      proxy_set_header CF-Connecting-IP $remote_addr;
      proxy_set_header X-Request-Id $request_id;
      proxy_set_header traceparent 00-$request_id-0000000000000001-00;
      add_header x-request-id $request_id;`,
    ),
};

export const HAPROXY: Recipe = {
  program: 'haproxy',
  version: ['-v'],
  config: (port, address) => `global
  nbthread 1
  maxconn ${CONNECTIONS / 2}
  log stdout format raw local0
defaults
  mode http
  log global
  option httplog
  option forwardfor
  http-reuse always
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend edge
  bind 127.0.0.1:${port} backlog 4096
  default_backend cell
backend cell
  server cell ${address}
`,
  args: (path) => ['-f', path],
};

/** Not a usable proxy: it shows the cost of Node itself. */
export const BARE_RELAY: Recipe = {
  name: 'bare Node relay',
  program: process.execPath,
  version: ['--version'],
  config: (port, socketPath) => `${port} ${socketPath}`,
  args: (path) => [join(import.meta.dirname, 'bare-relay.ts'), path],
};

/**
 * Starts a proxy.
 * @param address unix socket path of its backend; for HAProxy a host and port, too
 * @throws {Error} when it is not installed or does not listen
 */
export async function startProxy(recipe: Recipe, address: string): Promise<Proxy> {
  const { program, name = program, version, config, args } = recipe;
  const printed = spawnSync(program, version, { encoding: 'utf8' });
  if (printed.error) throw new Error(`this bench compares with ${program}: \`apt-get install ${program}\``);
  const directory = temporary();
  const port = await freePort('127.0.0.1');
  const path = join(directory.path, 'config');
  writeFileSync(path, config(port, address, directory.path));
  const outputPath = join(directory.path, 'output');
  const output = openSync(outputPath, 'a');
  const child = spawn(program, args(path), {
    env: { HOME: directory.path, PATH: '/usr/sbin:/usr/bin:/bin', GOMAXPROCS: '1' },
    stdio: ['ignore', output, output],
  });
  closeSync(output);
  const deadline = performance.now() + START_MS;
  while (!(await accepts(port))) {
    if (child.exitCode !== null || performance.now() > deadline) {
      throw new Error(
        `${program} did not start (exit code ${child.exitCode}): ${readFileSync(outputPath, 'utf8')}`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return {
    name: `${name} ${/\d+\.\d+\.\d+/.exec(printed.stdout + printed.stderr)?.[0] ?? ''}`.trim(),
    port,
    pid: child.pid!,
    [Symbol.asyncDispose]: async () => {
      await stop(child);
      directory[Symbol.dispose]();
    },
  };
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

async function stop(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}
