// Remembers recent values of each app, such as reported errors. An app with many values evicts only its own.
import { hash } from 'node:crypto';

/** Minimum number of an app's latest values that are remembered. The maximum is twice as many. */
const OF_APP = 300;
/** Minimum number of apps that are remembered: those with the latest values. The maximum is twice as many. */
const APPS = 200;

export class Recent<Value> {
  readonly #apps = new Generations<Generations<Value>>(APPS);

  get(appId: string, words: string): Value | undefined {
    return this.#apps.get(appId)?.get(keyOf(words));
  }

  /** @param words of any length; only their hash is stored */
  set(appId: string, words: string, value: Value): void {
    const ofApp = this.#apps.get(appId) ?? new Generations<Value>(OF_APP);
    ofApp.set(keyOf(words), value);
    this.#apps.set(appId, ofApp);
  }

  delete(appId: string, words: string): void {
    this.#apps.get(appId)?.delete(keyOf(words));
  }

  forget(appId: string): void {
    this.#apps.delete(appId);
  }
}

function keyOf(words: string): string {
  return hash('sha1', words, 'base64');
}

/**
 * A map that keeps at least the last `most` entries, and at most twice as many. It drops many entries at a time, because
 * removing the first entry of a large `Map` is slow.
 */
class Generations<Value> {
  readonly #most: number;
  #new = new Map<string, Value>();
  #old = new Map<string, Value>();

  constructor(most: number) {
    this.#most = most;
  }

  get(key: string): Value | undefined {
    return this.#new.get(key) ?? this.#old.get(key);
  }

  set(key: string, value: Value): void {
    this.#new.set(key, value);
    if (this.#new.size < this.#most) return;
    this.#old = this.#new;
    this.#new = new Map();
  }

  delete(key: string): void {
    this.#new.delete(key);
    this.#old.delete(key);
  }
}
