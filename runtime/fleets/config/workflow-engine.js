// workerd's engine of Workflows, whose instances have an alarm at every moment in which they have something to do.

import { Engine as Bundled } from './workflows.js';

export { WorkflowBinding } from './workflows.js';

/** How far ahead the engine sets the alarm of an instance that is at work, in ms. */
const WATCH_MS = 10 * 60 * 1000;

export class Engine extends Bundled {
  alarm() {
    // The engine sets none when this alarm ends the instance's last wait: the next step does. If the process ended before
    // that step, no other would know of the instance. Where the engine does set an alarm, this one is replaced.
    if (this.ctx.storage.kv.get('meta')?.status === 'waiting')
      this.ctx.storage.setAlarm(Date.now() + WATCH_MS);
    return super.alarm();
  }
}
