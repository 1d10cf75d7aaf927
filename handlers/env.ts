// Bindings of the control plane's Worker.
import type { AppObject } from './app/app-object.ts';
import type { Bindings } from './bindings.ts';

/** Adds the Durable Objects of apps, which themselves have only `Bindings`. */
export interface Env extends Bindings {
  APP: DurableObjectNamespace<AppObject>;
}
