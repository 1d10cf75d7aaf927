// A Git host over HTTPS. It runs real git. A test can set a function that answers requests to the API.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { serveGit } from '../../../runtime/git/smart-http.ts';

/** A key and a certificate for `localhost`, only for tests. */
export const CERTIFICATE = join(import.meta.dirname, 'localhost.pem');

export interface HostedRepository {
  /** The repository's directory. */
  path: string;
  /** The token needed to read the repository; null if everybody may read it. */
  token: string | null;
}

export class GitHost {
  /** Repositories, by the first part of the URL's path. */
  readonly repositories = new Map<string, HostedRepository>();
  /** Answers requests of its API, below `/api`. */
  api: (request: IncomingMessage, response: ServerResponse) => void = (_, response) =>
    response.writeHead(404).end();
  /** Paths of requests, in order. */
  readonly requests: string[] = [];
  readonly #pem = readFileSync(CERTIFICATE);
  readonly #server = createServer({ key: this.#pem, cert: this.#pem }, (request, response) => {
    const [path = '', query = ''] = request.url!.split('?');
    this.requests.push(path);
    if (path.startsWith('/api/')) {
      this.api(request, response);
      return;
    }
    const [name, service] = this.#find(path);
    const repository = this.repositories.get(name);
    const { authorization = '' } = request.headers;
    const password = Buffer.from(authorization.split(' ')[1] ?? '', 'base64')
      .toString()
      .split(':')[1];
    if (repository === undefined) response.writeHead(404).end();
    else if (repository.token !== null && password !== repository.token)
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
    else {
      const served = { repository: repository.path, hooks: '/dev/null', role: 'view', floorMb: 1 } as const;
      void serveGit({ ...served, onPush: () => {}, service, query }, request, response);
    }
  });

  async start(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  /** Splits a path into the name of the repository and git's service. */
  #find(path: string): [name: string, service: string] {
    const name = [...this.repositories.keys()].find((each) => path.startsWith(`/${each}/`)) ?? '';
    return [name, path.slice(name.length + 2)];
  }

  url(name: string): string {
    return `https://localhost:${(this.#server.address() as AddressInfo).port}/${name}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

/** Runs git in a working copy. */
export function gitIn(work: string, ...words: string[]): string {
  const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
  return execFileSync('git', ['-C', work, ...identity, ...words], { encoding: 'utf8' }).trim();
}
