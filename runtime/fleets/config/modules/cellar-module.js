// The binding to the service `cellar` in an app's Worker. It prints each report as JSON after a marker, and the host reads
// it from the app's log. So no request waits for it, and a report can only be about this app.

const MARK = '\u001ecellar ';
const END = '\u001e';
/**
 * Maximum size of a report's argument as JSON, in bytes. The host reads at most 64 KiB of a line, in which escaping may
 * double the size.
 */
const REPORT_BYTES = 20_000;

/** Taken before the app's code runs, and before Cellar's entry module wraps `console`. */
const { log } = console;
const encoder = new TextEncoder();

function report(kind, input) {
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw new TypeError(`${kind}(): the argument must be an object.`);
  // Null for an object whose `toJSON` returns nothing.
  const json = JSON.stringify(input) ?? null;
  if (encoder.encode(json).length > REPORT_BYTES)
    throw new TypeError(`${kind}(): the argument must have at most ${REPORT_BYTES} bytes as JSON.`);
  const text = `{"report":{"kind":"${kind}","input":${json}}}`;
  // `console` interprets `%` in its first argument, so the report is the second one. As an escape, each `%` would take seven
  // bytes.
  log('%s', MARK + text + END);
}

class Cellar {
  async log(event) {
    report('log', event);
  }

  async identify(user) {
    report('identify', user);
  }

  async insight(insight) {
    report('insight', insight);
  }
}

export default () => new Cellar();
