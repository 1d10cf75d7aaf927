// Bindings of the control plane's Worker.
import type { HostsBindings, HostsObject } from './hosts/hosts-object.ts';

/** Adds the Durable Object of all hosts. `AppObject` is typed with `Bindings` only, `HostsObject` with `HostsBindings`. */
export interface Env extends HostsBindings {
  HOSTS: DurableObjectNamespace<HostsObject>;
}
