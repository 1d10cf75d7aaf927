// The ends of processes and the starts that failed, as errors of apps.
import type { ReportedError } from '../logs/log-lines.ts';
import type { Failure } from '../protocol.ts';

/** Characters of the reason of a failure. */
const MESSAGE_LENGTH = 4_000;
/** A place in what does not load, as workerd says it. */
const PLACE = /\s+at ([\w./-]+:\d+:\d+)/g;

/** The end of a process, or a start that failed, as an error. What does not load says so in workerd's words. */
export function errorOfFailure({ mechanism, reason }: Pick<Failure, 'mechanism' | 'reason'>): ReportedError {
  const [words = ''] = reason.slice(0, MESSAGE_LENGTH).split('; its last lines:');
  const [, type, thrown] = /Uncaught (\w+): (.*)/s.exec(words) ?? [];
  const places = [...words.matchAll(PLACE)].map(([, place]) => `    at ${place}`);
  // A process that the host has killed is known by what it was killed for.
  const message = (thrown ?? words).split(PLACE)[0]!.replace(/: workerd was ended by SIGKILL$/, '');
  return {
    id: null,
    type: type ?? (mechanism === 'crash' ? 'Crash' : 'LoadError'),
    message,
    stack: places.length === 0 ? null : [`${type}: ${message}`, ...places].join('\n'),
    mechanism,
    handler: null,
    method: null,
    path: null,
    untold: 0,
  };
}
