// Calls the host about an app's repository.
import { SOURCE_DEADLINE_MS } from '../../contract/host/deadlines.ts';
import type { HostBlob, HostCalls } from '../../contract/host/host-routes.ts';
import type { Result } from '../../contract/index.ts';
import type { Part } from '../../range.ts';
import { type HostConnection, maybeDone, type Query } from './connection.ts';

/** Describes a commit; the file contents follow it. `bytes` is the length of each content, null for none. */
interface CommitHead {
  message: string;
  author: { name: string; email: string };
  parent: string | null;
  files: { path: string; bytes: number | null; mode: string | null; delete: boolean; from: string | null }[];
}

/** Options of all reads of an app's source. */
const SOURCE = {
  refusals: ['ref_not_found', 'path_not_found', 'invalid_input', 'host_unavailable'],
  deadlineMs: SOURCE_DEADLINE_MS,
} as const;

export class Source {
  readonly #host: HostConnection;

  constructor(host: HostConnection) {
    this.#host = host;
  }

  /** Returns the entries of a directory. `sha` is the commit, null before the first push. */
  async tree(
    appId: string,
    query: Query,
  ): Promise<{ sha: string | null; items: Result<'source.tree'>['items']; more: boolean }> {
    return this.#host.json('GET /apps/:id/source/tree', [appId], { ...SOURCE, query });
  }

  /** Returns a file's metadata without its contents. */
  async entry(appId: string, query: Query): Promise<HostBlob> {
    return this.#host.json('GET /apps/:id/source/entry', [appId], { ...SOURCE, query });
  }

  /** Returns a range of a file as a body to read or forward. `x-cellar-binary` is `true` for a binary file. */
  async bytes(appId: string, sha: string, part: Part): Promise<Response> {
    return this.#host.call('GET /apps/:id/source/blob/:sha', [appId, sha], { ...SOURCE, query: { ...part } });
  }

  async diff(appId: string, query: Query): Promise<Result<'source.diff'>> {
    return this.#host.json('GET /apps/:id/source/diff', [appId], { ...SOURCE, query });
  }

  /** @param contents of the files with `bytes`, in the same order */
  async commit(appId: string, head: CommitHead, contents: Uint8Array[]): Promise<Result<'source.commit'>> {
    const bytes = new Blob([`${JSON.stringify(head)}\n`, ...contents]);
    const refusals = ['commit_conflict', 'path_not_found', 'invalid_input', 'host_unavailable'] as const;
    const options = { bytes, refusals, deadlineMs: SOURCE_DEADLINE_MS };
    return this.#host.json('POST /apps/:id/source/commit', [appId], options).catch(maybeDone);
  }

  /** Imports a repository. @throws {Problem} `commit_conflict`, `import_failed`, `rate_limited` */
  async import(appId: string, url: string): Promise<Result<'source.import'>> {
    const refusals = ['commit_conflict', 'import_failed', 'rate_limited'] as const;
    const options = { body: { url }, refusals, deadlineMs: SOURCE_DEADLINE_MS };
    return this.#host.json('POST /apps/:id/source/import', [appId], options).catch(maybeDone);
  }

  /** Commits a template. @throws {Problem} `commit_conflict` */
  async startFromTemplate(
    appId: string,
    body: HostCalls['POST /apps/:id/source/template']['body'],
  ): Promise<Result<'source.template'>> {
    const options = { body, refusals: ['commit_conflict'], deadlineMs: SOURCE_DEADLINE_MS } as const;
    return this.#host.json('POST /apps/:id/source/template', [appId], options).catch(maybeDone);
  }
}
