// Parses a Worker's report of the calls that one of its events waited for.
import { CALL_KINDS, type CallKind } from '../../../handlers/contract/telemetry/requests.ts';
import { cutText } from '../../../handlers/contract/text.ts';
import { plainText } from '../../processes/lines.ts';

/** The calls that an event waited for. Untrusted: the app can fake all of it. */
export interface ReportedCalls {
  /** The app's handler of the event, such as `fetch` or `Room.alarm`. */
  handler: string;
  calls: ReportedCall[];
}

interface ReportedCall {
  kind: CallKind;
  /** The called method, such as `D1.all`. */
  name: string;
  /** The SQL without its values, or the address without its query; null for other kinds. */
  detail: string | null;
  /** In ms since 1970. */
  startedAt: number;
  durationMs: number;
  failed: boolean;
}

/** Maximum calls of one report. */
const CALLS_MAX = 50;
const NAME_LENGTH = 100;
const DETAIL_LENGTH = 500;
/** A call that took longer than this, or began longer ago, is left out. In ms. */
const LONGEST_MS = 24 * 3_600_000;

/** Parses `[handler, [kind, name, detail, startedAt, durationMs, failed], …]`; null without a handler or a valid call. */
export function callsOf(given: unknown, now: number): ReportedCalls | null {
  if (!Array.isArray(given) || typeof given[0] !== 'string') return null;
  const calls = given.slice(1, CALLS_MAX + 1).flatMap((call) => callOf(call, now));
  return calls.length === 0 ? null : { handler: shown(given[0], NAME_LENGTH), calls };
}

function callOf(given: unknown, now: number): ReportedCall[] {
  if (!Array.isArray(given)) return [];
  const [kind, name, detail, startedAt, durationMs, failed] = given as unknown[];
  if (!isKind(kind) || typeof name !== 'string') return [];
  if (typeof startedAt !== 'number' || typeof durationMs !== 'number') return [];
  const isPlausible = startedAt > now - LONGEST_MS && startedAt <= now && durationMs >= 0;
  if (!isPlausible || durationMs > LONGEST_MS) return [];
  return [
    {
      kind,
      name: shown(name, NAME_LENGTH),
      detail: typeof detail === 'string' && detail !== '' ? shown(detail, DETAIL_LENGTH) : null,
      startedAt: Math.round(startedAt),
      durationMs: Math.round(durationMs),
      failed: failed === 1,
    },
  ];
}

function isKind(kind: unknown): kind is CallKind {
  return (CALL_KINDS as readonly unknown[]).includes(kind);
}

function shown(text: string, length: number): string {
  return cutText(plainText(cutText(text, length)), length);
}
