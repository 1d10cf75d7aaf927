// The parts of the APIs of GitHub, Gitea and GitLab that Cellar uses for pull requests. They record the calls.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { readAtMost } from '../../../runtime/sockets/read-at-most.ts';

/** A commit status, as it was sent. */
export interface RecordedStatus {
  sha: string;
  body: Record<string, string>;
}

export class GitHostApi {
  readonly statuses: RecordedStatus[] = [];
  /** The texts of comments, by number. */
  readonly comments = new Map<number, string>();
  /** Methods and paths of all calls, in order. */
  readonly calls: string[] = [];
  /** Members of the repository: their login names; for GitLab, their numbers. */
  readonly members = new Set<string>();
  /** Login names of members of the organization's teams. Only for Gitea. */
  readonly teamMembers = new Set<string>();
  /** The status when Cellar asks about a user who is not a member. */
  notMember: 403 | 404 = 404;
  /** Error statuses for the next calls: each call takes the first one. When the list is empty, calls succeed. */
  readonly failures: number[] = [];
  readonly #credential: [header: string, value: string];
  readonly #routes: [RegExp, (words: string[], body: Record<string, string>) => [number, unknown]][];

  /** @param prefix the beginning of every path, such as `/api/v1/repos/ada/shop` */
  constructor(kind: 'github' | 'gitea' | 'gitlab', prefix: string, token: string) {
    this.#credential = {
      github: ['authorization', `Bearer ${token}`] as [string, string],
      gitea: ['authorization', `token ${token}`] as [string, string],
      gitlab: ['private-token', token] as [string, string],
    }[kind];
    const [all, one] =
      kind === 'gitlab'
        ? ['/merge_requests/\\d+/notes', '/merge_requests/\\d+/notes/(\\d+)']
        : ['/issues/\\d+/comments', '/issues/comments/(\\d+)'];
    const member = kind === 'gitlab' ? '/members/all/(.+)' : '/collaborators/(.+)';
    const replace = kind === 'gitlab' ? 'PUT' : 'PATCH';
    const exactly = (method: string, path: string) =>
      new RegExp(`^${method} ${prefix.replaceAll('.', '\\.')}${path}$`);
    this.#routes = [
      [
        exactly('POST', '/statuses/([0-9a-f]{40})'),
        ([sha], body) => {
          this.statuses.push({ sha: sha!, body });
          return [201, {}];
        },
      ],
      [
        exactly('GET', `${all}\\?.*`),
        () => [200, [...this.comments].map(([id, text]) => ({ id, body: text }))],
      ],
      [
        exactly('POST', all),
        (_, body) => {
          const id = this.comments.size + 1;
          this.comments.set(id, body.body!);
          return [201, { id }];
        },
      ],
      [
        exactly(replace, one),
        ([id], body) => {
          if (!this.comments.has(Number(id))) return [404, {}];
          this.comments.set(Number(id), body.body!);
          return [200, { id: Number(id) }];
        },
      ],
      [
        exactly('GET', member),
        ([name]) => {
          if (!this.members.has(name!)) return [this.notMember, {}];
          return kind === 'gitlab' ? [200, { access_level: 30 }] : [204, null];
        },
      ],
      [exactly('GET', '/assignees'), () => [200, [...this.teamMembers].map((login) => ({ login }))]],
    ];
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const call = `${request.method} ${request.url}`;
    const text = (await readAtMost(request, 2 ** 20))!.toString('utf8');
    this.calls.push(call);
    const [header, value] = this.#credential;
    const [status, json] = this.#answer(call, request.headers[header] === value, text);
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(json === null ? '' : JSON.stringify(json));
  }

  #answer(call: string, isAuthorized: boolean, text: string): [number, unknown] {
    const failure = this.failures.shift();
    if (failure !== undefined) return [failure, { message: 'busy' }];
    if (!isAuthorized) return [401, { message: 'no such token' }];
    for (const [pattern, answer] of this.#routes) {
      const words = pattern.exec(call);
      if (words) return answer(words.slice(1), text === '' ? {} : JSON.parse(text));
    }
    return [404, { message: `no ${call}` }];
  }
}
