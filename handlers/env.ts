// What the Worker of the control plane is given.
import type { AppObject } from './app/app-object.ts';
import type { Bindings } from './bindings.ts';

/** Bindings, with the object of each app. */
export interface Env extends Bindings {
  APP: DurableObjectNamespace<AppObject>;
}
