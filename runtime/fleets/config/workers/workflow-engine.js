// Changes workerd's Workflows engine: an instance at work has an early alarm, which runs it again if it was interrupted.

import { Engine as Bundled } from './workflows.js';

export { WorkflowBinding } from './workflows.js';

/**
 * How far ahead the alarm of an instance at work is set, in ms. workerd alone sets it ten minutes ahead. An instance would
 * wait that long if its object ended but its process did not, for example when a write to the bucket failed.
 */
const WATCH_MS = 30 * 1000;
/** States in which an instance runs the app's code. In other states, its alarm is the end of a wait, or of its retention. */
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
    // When this alarm ends the instance's last wait, the engine sets no further alarm before the next step. If the object
    // ended before this step, nothing would resume the instance. So this sets an alarm, which an alarm of the engine
    // replaces.
    if (this.ctx.storage.kv.get('meta')?.status === 'waiting')
      this.ctx.storage.setAlarm(Date.now() + WATCH_MS);
    return super.alarm();
  }
}
