// Bindings of the control plane's Worker.
import type { HostsBindings, HostsObject } from './hosts/hosts-object.ts';

/** Adds the Durable Object of all hosts. Those of apps have only `Bindings`. */
export interface Env extends HostsBindings {
  HOSTS: DurableObjectNamespace<HostsObject>;
}
