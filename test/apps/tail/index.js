// A tail Worker: it answers with the events that it got, and their batches.
const events = [];
let batches = 0;

export default {
  tail(items) {
    batches++;
    for (const item of items) {
      const { request, scheduledTime } = item.event ?? {};
      const whole = request?.getUnredacted();
      events.push({
        ...item,
        whole: whole && [whole.url, whole.headers],
        isDate: scheduledTime instanceof Date,
      });
    }
    if (items.some(({ logs }) => logs.some(({ message }) => message[0] === 'fail in the tail')))
      throw new Error('the tail Worker failed');
  },
  fetch: () => Response.json({ events, batches }),
};
