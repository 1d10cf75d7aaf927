// workerd's Workflows engine. Here an instance has an alarm whenever it has something to do.

import { Engine as Bundled } from './workflows.js';

export { WorkflowBinding } from './workflows.js';

/** How far ahead the engine sets a working instance's alarm, in ms. */
const WATCH_MS = 10 * 60 * 1000;

export class Engine extends Bundled {
  alarm() {
    // The engine sets no alarm when this one ends the instance's last wait; the next step does. If the process ended before
    // that step, nothing would wake the instance. An alarm of the engine replaces this one.
    if (this.ctx.storage.kv.get('meta')?.status === 'waiting')
      this.ctx.storage.setAlarm(Date.now() + WATCH_MS);
    return super.alarm();
  }
}
