// Keeps the row and log of one deploy in the host's database, and sends them to the control plane.
import type { DeployFact } from '../../../handlers/contract/host/host-calls.ts';
import type { HostStore } from '../../../sqlite/host/index.ts';
import { type Level, logRarely, reason } from '../../log.ts';
import { DeployLog } from './deploy-log.ts';
import { LineBatch } from './line-batch.ts';

/** Delay in ms before changed steps are written and new lines are sent, so that one write has several of them. */
const PROGRESS_MS = 100;
/** Delay in ms before the log with new lines is stored. It is longer, because each write has the whole log, up to 64 KiB. */
const LOG_MS = 1_000;
/** Delay in ms before a failed write is retried, for example on a full disk. */
const RETRY_MS = 1_000;
/** While the outbox has more facts (events for the control plane) than this, new lines stay in their bounded batch. */
const FACTS_WAITING = 100;

export interface RecordOptions {
  store: HostStore;
  /** Called after each transaction that may have added facts to the outbox, except that of `changeWith`. */
  onFacts: () => void;
}

export class DeployRecord {
  readonly log: DeployLog;
  readonly #options: RecordOptions;
  /** For a rollback: the earlier deploy whose release it starts again; else `null`. */
  readonly #releaseOf: string | null;
  /** Lines not yet sent to the control plane. */
  readonly #unsent = new LineBatch();
  /** The lines that the latest transaction sent. */
  #sent: string[] = [];
  #fact: DeployFact;
  /** Whether the row has changed since the last write. */
  #isChanged = false;
  #progress: NodeJS.Timeout | null = null;
  #saving: NodeJS.Timeout | null = null;

  /**
   * Records a new deploy.
   * @param releaseOf for a rollback: the earlier deploy whose release it starts again; else `null`
   * @param onLine called with each line of the log
   * @throws when it cannot be written: then the deploy does not exist
   */
  constructor(
    options: RecordOptions,
    fact: DeployFact,
    releaseOf: string | null,
    onLine: (line: string, level: Level) => void,
  ) {
    this.#options = options;
    this.#fact = fact;
    this.#releaseOf = releaseOf;
    this.log = new DeployLog({
      onLine: (line, level) => {
        onLine(line, level);
        this.#unsent.add(line);
        this.#publishSoon(PROGRESS_MS);
        this.#saveLogSoon(LOG_MS);
      },
      onSteps: (steps) => {
        this.#set({ steps });
        this.#publishSoon(PROGRESS_MS);
      },
    });
    this.#transaction(() => this.#saveAll());
    options.onFacts();
  }

  /** Returns the current row. */
  get fact(): Readonly<DeployFact> {
    return this.#fact;
  }

  /** Changes the row, writes it and notifies the control plane at once. Never throws: a failed write is retried. */
  change(change: Partial<DeployFact>): void {
    this.#set(change);
    this.write();
  }

  /**
   * Changes the row in the same transaction as `writeRest`.
   * @throws the error of the transaction; then the row is unchanged
   */
  changeWith(change: Partial<DeployFact>, writeRest: () => void): void {
    const before = this.#fact;
    this.#fact = { ...before, ...change };
    try {
      this.#transaction(() => {
        writeRest();
        this.#saveAll();
      });
    } catch (error) {
      this.#fact = before;
      throw error;
    }
  }

  /** Writes all changes and notifies the control plane. Never throws: a failed write is retried. */
  write(): void {
    if (this.#progress) clearTimeout(this.#progress);
    if (this.#saving) clearTimeout(this.#saving);
    this.#progress = this.#saving = null;
    const save = () => {
      if (this.#isChanged) return this.#saveAll();
      this.#sendLines();
      this.#saveLog();
    };
    if (this.#transact(save)) this.#isChanged = false;
    else {
      this.#publishSoon(RETRY_MS);
      this.#saveLogSoon(RETRY_MS);
    }
  }

  /** If the row has changed, writes everything. Otherwise sends the new lines, unless too many facts wait in the outbox. */
  #publish(): void {
    this.#progress = null;
    if (this.#isChanged) {
      this.write();
      return;
    }
    const { outbox } = this.#options.store;
    const written = this.#transact(() => {
      if (!outbox.hasMoreThan(FACTS_WAITING)) this.#sendLines();
    });
    if (!written) this.#publishSoon(RETRY_MS);
  }

  #publishSoon(delayMs: number): void {
    this.#progress ??= setTimeout(() => this.#publish(), delayMs).unref();
  }

  #saveLogSoon(delayMs: number): void {
    this.#saving ??= setTimeout(() => {
      this.#saving = null;
      if (!this.#transact(() => this.#saveLog())) this.#saveLogSoon(RETRY_MS);
    }, delayMs).unref();
  }

  /** @returns whether everything was written */
  #transact(save: () => void): boolean {
    try {
      this.#transaction(save);
      this.#options.onFacts();
      return true;
    } catch (error) {
      logRarely('error', 'a deploy could not be recorded; Cellar tries again', {
        deploy: this.#fact.id,
        error: reason(error),
      });
      return false;
    }
  }

  /** Runs a transaction. If it fails, its lines stay unsent. @throws its error */
  #transaction(work: () => void): void {
    this.#sent = [];
    try {
      this.#options.store.transaction(work);
    } catch (error) {
      for (const line of this.#sent) this.#unsent.add(line);
      throw error;
    }
  }

  #set(change: Partial<DeployFact>): void {
    this.#fact = { ...this.#fact, ...change };
    this.#isChanged = true;
  }

  /** Writes the row and the log. Must be called inside a transaction. */
  #saveAll(): void {
    const { deploys, outbox } = this.#options.store;
    // Lines come before the row: a reader that sees the deploy's end has every line.
    this.#sendLines();
    deploys.save(this.#fact, this.#releaseOf);
    this.#saveLog();
    outbox.add({ type: 'deploy', deploy: this.#fact });
  }

  #saveLog(): void {
    this.#options.store.deploys.saveLog(this.#fact.id, this.log.text);
  }

  #sendLines(): void {
    const lines = this.#unsent.take();
    this.#sent = lines;
    const { id, app_id } = this.#fact;
    if (lines.length > 0)
      this.#options.store.outbox.add({ type: 'lines', lines: { app_id, deploy_id: id, lines } });
  }
}
