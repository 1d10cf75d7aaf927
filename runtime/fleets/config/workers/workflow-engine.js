// Changes workerd's Workflows engine: an instance at work has an early alarm, which runs it again if it was interrupted.

import { Engine as Bundled } from './workflows.js';

export { WorkflowBinding } from './workflows.js';

/**
 * How far ahead the alarm of an instance at work is set, in ms. workerd alone would take ten minutes. For so long, an
 * instance would stand still if its object ended without its process, for example when a write to the bucket failed.
 */
const WATCH_MS = 30 * 1000;
/** States in which an instance runs the app's code. In others, its alarm is the end of a wait, or of its retention. */
const AT_WORK = ['queued', 'running', 'waitingForPause', 'rollingBack'];

export class Engine extends Bundled {
  constructor(ctx, env) {
    super(ctx, env);
    const { storage } = ctx;
    const setAlarm = storage.setAlarm.bind(storage);
    storage.setAlarm = (at) => {
      const isAtWork = AT_WORK.includes(storage.kv.get('meta')?.status);
      return setAlarm(isAtWork ? Math.min(at, Date.now() + WATCH_MS) : at);
    };
  }

  alarm() {
    // The engine sets no alarm when this one ends the instance's last wait; the next step does. If the object ended before
    // that step, nothing would wake the instance. An alarm of the engine replaces this one.
    if (this.ctx.storage.kv.get('meta')?.status === 'waiting')
      this.ctx.storage.setAlarm(Date.now() + WATCH_MS);
    return super.alarm();
  }
}
