// What a host tells the others of its apps' queues.

/** The most that is read of it, in bytes. */
export const CONSUMED_QUEUES_BYTES = 4 * 1024 * 1024;

/** The queues that an app consumes. */
export interface ConsumedQueues {
  /** Its id. */
  app: string;
  owner: string;
  /** Names. */
  queues: string[];
}
