// Converts ends of processes and failed starts to errors of apps.
import type { ReportedError } from '../logs/log-lines.ts';
import type { Failure } from '../protocol.ts';

/** Longest failure reason, in characters. */
const MESSAGE_LENGTH = 4_000;
/** Matches a place in workerd's message about code that does not load. */
const PLACE = /\s+at ([\w./-]+:\d+:\d+)/g;

/** Converts the end of a process or a failed start to an error. For code that does not load, workerd's message is parsed. */
export function errorOfFailure({ mechanism, reason }: Pick<Failure, 'mechanism' | 'reason'>): ReportedError {
  const [words = ''] = reason.slice(0, MESSAGE_LENGTH).split('; its last lines:');
  const [, type, thrown] = /Uncaught (\w+): (.*)/s.exec(words) ?? [];
  const places = [...words.matchAll(PLACE)].map(([, place]) => `    at ${place}`);
  // For a process that the host killed, the reason alone identifies the error.
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
