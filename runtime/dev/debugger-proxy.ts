// A port for debuggers, which proxies to workerd's inspector. The inspector itself would accept connections from any web
// page.

import { Gateway, type RequestHead, type Target } from '../edge/gateway.ts';
import { headerValue } from '../edge/http/head/fields.ts';
import type { Backend } from '../edge/upstream/backend.ts';
import { isDebugger, isLocalHost, NO_DEBUGGER, NOT_YET } from './answers.ts';
import { backendAt } from './backend.ts';

const HOLD_TIMEOUT_MS = 10_000;

export class DebuggerProxy {
  readonly #gateway = new Gateway({ resolve: (head) => this.#resolve(head), holdTimeoutMs: HOLD_TIMEOUT_MS });
  /** The inspector of the current process. */
  #inspector: Backend | null = null;

  /** Listens on loopback. @returns the port; with 0, the system chooses one */
  listen(port: number): Promise<number> {
    return this.#gateway.listen(port, '127.0.0.1');
  }

  /** Proxies to another process from now on. @param port of that process's inspector */
  leadTo(port: number): void {
    this.#inspector = backendAt({ host: '127.0.0.1', port }, 'debugger');
  }

  async close(): Promise<void> {
    await this.#gateway.close(0);
  }

  #resolve({ host, headers }: RequestHead): Target {
    if (!isLocalHost(host) || !isDebugger(headerValue(headers, 'origin')))
      return { kind: 'respond', respond: () => ({ refusal: NO_DEBUGGER }) };
    if (this.#inspector === null) return { kind: 'respond', respond: () => ({ refusal: NOT_YET }) };
    return { kind: 'proxy', backend: this.#inspector };
  }
}
