// Several real hosts of one Cellar, on loopback addresses of their own, with one bucket.

import { MemoryStore } from '../bucket/memory-store.ts';
import { bucketSettings } from '../bucket/settings.ts';
import { Cellar } from '../e2e/cellar.ts';
import { ownPorts } from '../ports.ts';

const PREFIX = 'of/cellar/';

export interface TestHost extends Cellar {
  /** Its RUNNER_ADDRESS. */
  readonly address: string;
}

export class Hosts {
  readonly store: MemoryStore;
  /** In the order of their addresses: 127.0.0.1, 127.0.0.2, … */
  readonly all: readonly TestHost[];

  private constructor(store: MemoryStore, all: readonly TestHost[]) {
    this.store = store;
    this.all = all;
  }

  /**
   * Starts hosts, all at the same time. They end with the object.
   * @param count at most 3
   * @param settings of all of them
   */
  static async start(count: number, settings: Record<string, string> = {}): Promise<Hosts> {
    const store = await new MemoryStore().start();
    const all = Array.from({ length: count }, (_, n) => hostOf(store, n + 1, settings));
    const hosts = new Hosts(store, all);
    try {
      await Promise.all(all.map((host) => host.start()));
      return hosts;
    } catch (error) {
      await hosts[Symbol.asyncDispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.all.map((host) => host[Symbol.asyncDispose]()));
    await this.store[Symbol.asyncDispose]();
  }
}

/** Returns a RUNNER_ADDRESS. @param number the last part of the IP address */
export function hostAddress(number: number): string {
  // A host also listens on the port after this one.
  const [port] = ownPorts(2);
  return `127.0.0.${number}:${port}`;
}

/** Returns a host that is not started yet. @param number the last part of its IP address */
export function hostOf(store: MemoryStore, number: number, settings: Record<string, string> = {}): TestHost {
  const address = hostAddress(number);
  const own = { ...bucketSettings(store.place(PREFIX)), RUNNER_ADDRESS: address, ...settings };
  return Object.assign(new Cellar(own), { address });
}
