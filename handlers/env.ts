// Bindings of the control plane's Worker.
import type { HostsBindings, HostsObject } from './hosts/hosts-object.ts';

/** Adds the Durable Object that knows all hosts. The Durable Objects of apps get only `Bindings`. */
export interface Env extends HostsBindings {
  HOSTS: DurableObjectNamespace<HostsObject>;
}
