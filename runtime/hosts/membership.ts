// This host as one of several: it reports to the control plane, and learns from the answers where apps run. Without answers
// it is cut off, and stops its apps in the bucket: the control plane may move them to other hosts.
import { setTimeout as sleep } from 'node:timers/promises';
import type { HostReport, HostReportAnswer } from '../../handlers/contract/host/hosts.ts';
import { log, logRarely, reason } from '../log.ts';
import type { Gate } from './gate.ts';
import type { Homes } from './homes.ts';

/** Version of the hosts' protocol, in each report. The versions of two hosts may differ by at most 1. */
export const HOSTS_PROTOCOL = 1;
/** The control plane's error code for a host whose protocol differs too much from another host's. */
const INCOMPATIBLE = 'host_incompatible';

/** Interval of reports, in ms. */
const REPORT_EVERY_MS = 2_000;
/** Timeout of a report, in ms. */
const ANSWER_MS = 5_000;
/** Timeout of the first report, in ms. Its answer has the routes of all apps, and other hosts may ask for them too. */
const FIRST_ANSWER_MS = 30_000;
/** Time without an answer after which a host is cut off, in ms. Some seconds later its apps move to other hosts. */
const CUT_OFF_MS = 15_000;
/** Timeout of `isCounted`, in ms. */
const COUNTED_MS = 2_000;
/** Shortest time between extra reports, in ms. A request that waits for an app causes an extra report. */
const ASKED_EVERY_MS = 500;

export interface MembershipOptions {
  /** Fields of the report that do not change while the host runs. */
  host: Pick<HostReport, 'id' | 'name' | 'address' | 'version' | 'started_at' | 'adopts'>;
  homes: Homes;
  gate: Gate;
  /** Returns the fields of the report that change. */
  look: () => Pick<HostReport, 'load' | 'clock_ahead_ms' | 'unanswered'>;
  /** Sends a report to the control plane. @throws {Error} with a `code` when it refuses the host */
  send: (report: HostReport, deadlineMs: number) => Promise<HostReportAnswer>;
  /**
   * Whether another host runs the control plane's Durable Object that measures how long this host is silent. If false,
   * nothing measures the silence, so no other host gets the apps.
   * @throws {Error} when the bucket does not answer
   */
  isCounted: () => Promise<boolean>;
  /** Called with each answer, after its routes are known. */
  onAnswer: (answer: HostReportAnswer) => void;
  /** Hands over the apps whose home (the host that runs them) is another host now. Must not reject. */
  settle: () => Promise<void>;
  /** Called when the host is cut off: apps that other hosts may run must end here. */
  onCutOff: () => void;
  /** Called when it is no longer cut off. */
  onBack: () => void;
  /** Default: `CUT_OFF_MS`. */
  cutOffMs?: number;
}

export class Membership {
  /** Whether the host is about to end, and other hosts should get its requests. */
  isLeaving = false;
  readonly #options: MembershipOptions;
  readonly #closing = new AbortController();
  /** Settles with the newest report. Reports run one after another, so that an older answer never replaces a newer one. */
  #last: Promise<unknown> = Promise.resolve();
  #asked: Promise<void> | null = null;
  /** When the newest extra report began, as `performance.now()`. */
  #askedAt = Number.NEGATIVE_INFINITY;
  #cutOff: NodeJS.Timeout | undefined;
  /** When the newest answered report was sent, as `performance.now()`. */
  #heardAt = 0;
  #hasJoined = false;
  #isAdmitted = false;
  /** Whether the host is cut off. After the next answer, the gate stays shut until `settle` has ended. */
  #isLost = false;
  #returning: Promise<void> | null = null;

  constructor(options: MembershipOptions) {
    this.#options = options;
  }

  /** Why other hosts should get the requests that reach this one, in one word; null when it serves. */
  get problem(): 'stopping' | 'cut off' | 'starting' | null {
    if (this.isLeaving) return 'stopping';
    if (this.#options.gate.isShut) return 'cut off';
    return this.#isAdmitted ? null : 'starting';
  }

  /**
   * Reports until the control plane answers, then resolves. From then on, sends a report every `REPORT_EVERY_MS`.
   * @throws {Error} when the control plane refuses this host, or `leave` is called between two reports
   */
  async join(): Promise<void> {
    const { signal } = this.#closing;
    for (;;) {
      signal.throwIfAborted();
      const failure = await this.#report();
      if (failure === null) break;
      if (isRefusal(failure)) throw failure;
      await sleep(REPORT_EVERY_MS, undefined, { signal });
    }
    this.#hasJoined = true;
    void this.#reportOn();
  }

  /** Lets apps in the bucket run from now on. Call it after the apps that have other homes were handed over. */
  admitApps(): void {
    this.#isAdmitted = true;
    if (!this.#isLost) this.#options.gate.open();
  }

  /**
   * Sends an extra report, at the earliest `ASKED_EVERY_MS` after the previous extra one. Resolves when the report was
   * answered or has failed. Calls before it is sent share one report. Never rejects.
   */
  reportNow(): Promise<void> {
    this.#asked ??= this.#reportAsked();
    return this.#asked;
  }

  /**
   * Reports that this host leaves, and waits until its apps have moved away, or `deadlineMs` are over. Then ends the
   * reports. Never rejects.
   */
  async leave(deadlineMs: number): Promise<void> {
    this.#closing.abort(new Error('the host is stopping'));
    clearTimeout(this.#cutOff);
    if (!this.#hasJoined || this.#isLost) return;
    const moved = new AbortController();
    const leaving = this.#last.then(() => this.#sayLeaving(deadlineMs));
    void this.#leaveOn(moved.signal);
    await leaving
      .then(
        (answer) => this.#options.homes.take(answer),
        (error: unknown) =>
          log(
            'warn',
            'the control plane may not know that this host stops, so its apps may start late on other hosts',
            { error: reason(error) },
          ),
      )
      .finally(() => moved.abort());
  }

  /**
   * Repeats the report that this host leaves, until it is answered.
   * @throws {Error} the last failure: after a refusal, without another active host, and when `deadlineMs` are over
   */
  async #sayLeaving(deadlineMs: number): Promise<HostReportAnswer> {
    const endsAt = performance.now() + deadlineMs;
    for (;;) {
      try {
        return await this.#sendLeaving(Math.max(1, Math.ceil(endsAt - performance.now())));
      } catch (error) {
        const isAlone = !this.#options.homes.others.some(({ state }) => state === 'active');
        if (isAlone || isRefusal(error) || performance.now() + REPORT_EVERY_MS >= endsAt) throw error;
        await sleep(REPORT_EVERY_MS);
      }
    }
  }

  #sendLeaving(deadlineMs: number): Promise<HostReportAnswer> {
    return this.#options.send({ ...this.#next(), leaves: true }, deadlineMs);
  }

  /**
   * Reports while apps move away. Otherwise the control plane would take this host for lost, and move apps that still
   * run here.
   */
  async #leaveOn(moved: AbortSignal): Promise<void> {
    for (;;) {
      await sleep(REPORT_EVERY_MS, undefined, { signal: moved }).catch(() => {});
      if (moved.aborted) return;
      await this.#sendLeaving(ANSWER_MS).catch(() => {});
    }
  }

  async #reportOn(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await sleep(REPORT_EVERY_MS, undefined, { signal }).catch(() => {});
      if (!signal.aborted) await this.#report();
    }
  }

  async #reportAsked(): Promise<void> {
    await sleep(Math.max(0, this.#askedAt + ASKED_EVERY_MS - performance.now()));
    this.#asked = null;
    this.#askedAt = performance.now();
    await this.#report();
  }

  /** Sends a report. @returns why the control plane did not answer; null when it did, or when this host has left */
  #report(): Promise<unknown> {
    const done = this.#last.then(async () => {
      // A report after `leave` would make the control plane use this host again.
      if (this.#closing.signal.aborted) return null;
      const sentAt = performance.now();
      try {
        const deadlineMs = this.#hasJoined ? ANSWER_MS : FIRST_ANSWER_MS;
        const answer = await this.#options.send(this.#next(), deadlineMs);
        if (!this.#closing.signal.aborted) this.#heard(answer, sentAt);
        return null;
      } catch (error) {
        const isFinal = isRefusal(error) && !this.#hasJoined;
        if (!this.#closing.signal.aborted && !isFinal)
          logRarely('warn', 'the control plane did not answer the report of this host; Cellar tries again', {
            error: reason(error),
          });
        return error;
      }
    });
    this.#last = done;
    return done;
  }

  #next(): HostReport {
    const { host, homes, look } = this.#options;
    const awaited = homes.takeAwaited();
    return { protocol: HOSTS_PROTOCOL, ...host, ...look(), awaited, revision: homes.revision };
  }

  #heard(answer: HostReportAnswer, sentAt: number): void {
    const { homes, gate, onAnswer, cutOffMs = CUT_OFF_MS } = this.#options;
    homes.take(answer);
    onAnswer(answer);
    // Counts from the sending of the report. The control plane counts from its receipt, so this host is cut off first.
    this.#heardAt = sentAt;
    this.#lookIn(sentAt + cutOffMs - performance.now());
    this.#isLost = false;
    if (gate.isShut)
      this.#returning ??= this.#back().finally(() => {
        this.#returning = null;
      });
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#cutOff);
    this.#cutOff = setTimeout(() => void this.#look(), ms);
  }

  /** Decides whether the host is cut off, after no report was answered for too long. */
  async #look(): Promise<void> {
    const { isCounted } = this.#options;
    const heardAt = this.#heardAt;
    const late = sleep(COUNTED_MS, true, { ref: false });
    const mayLoseApps = await Promise.race([isCounted().catch(() => true), late]);
    // An answer may have come meanwhile.
    if (this.#closing.signal.aborted || this.#heardAt !== heardAt) return;
    if (mayLoseApps) this.#isCutOff();
    else this.#lookIn(REPORT_EVERY_MS);
  }

  #isCutOff(): void {
    log(
      'error',
      'this host does not reach the control plane: its apps in the bucket are stopped here, because other hosts may run them',
    );
    this.#isLost = true;
    this.#options.gate.shut();
    this.#options.onCutOff();
  }

  async #back(): Promise<void> {
    const { gate, settle, onBack } = this.#options;
    await settle();
    if (this.#isLost || !this.#isAdmitted || this.#closing.signal.aborted) return;
    log('info', 'this host reaches the control plane again');
    gate.open();
    onBack();
  }
}

/** Whether the control plane refuses this host because of its protocol version. */
function isRefusal(error: unknown): boolean {
  return (error as { code?: unknown }).code === INCOMPATIBLE;
}
