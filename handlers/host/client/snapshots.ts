// Calls the host about snapshots of the whole Cellar.
import { SNAPSHOT_DEADLINE_MS, SNAPSHOT_LIST_DEADLINE_MS } from '../../contract/host/deadlines.ts';
import type { HostCalls } from '../../contract/host/host-routes.ts';
import type { Result } from '../../contract/index.ts';
import { type HostConnection, maybeDone } from './connection.ts';

const REFUSALS = ['snapshot_unusable', 'snapshot_failed'] as const;

export class Snapshots {
  readonly #host: HostConnection;

  constructor(host: HostConnection) {
    this.#host = host;
  }

  async take(): Promise<Result<'admin.snapshot'>> {
    return this.#host.json('POST /snapshots', [], { refusals: REFUSALS, deadlineMs: SNAPSHOT_DEADLINE_MS });
  }

  /** All snapshots, the newest first. */
  async list(): Promise<Result<'snapshots.list'>['items']> {
    const options = { refusals: REFUSALS, deadlineMs: SNAPSHOT_LIST_DEADLINE_MS };
    return (await this.#host.json('GET /snapshots', [], options)).items;
  }

  /** Reads all objects that snapshots need, and finds damage. @throws {Problem} `snapshot_failed`, `snapshot_unusable` */
  async verify(): Promise<Result<'snapshots.verify'>> {
    const options = { refusals: REFUSALS, deadlineMs: SNAPSHOT_DEADLINE_MS };
    return this.#host.json('POST /snapshots/verify', [], options);
  }

  /** @throws {Problem} `app_not_found`, `snapshot_not_found`, `snapshot_unusable`, `snapshot_failed` */
  async restore(body: HostCalls['POST /snapshots/restore']['body']): Promise<Result<'admin.restore'>> {
    const refusals = ['app_not_found', 'snapshot_not_found', ...REFUSALS] as const;
    const options = { body, refusals, deadlineMs: SNAPSHOT_DEADLINE_MS };
    return this.#host.json('POST /snapshots/restore', [], options).catch(maybeDone);
  }
}
