// What is remembered of apps for a while, such as which errors they have just told. An app that has very much of it forgets
// its own, and never another's.
import { hash } from 'node:crypto';

/** What is remembered of one app at least; and of how many apps at least, which are those that had something last. */
const OF_APP = 300;
const APPS = 200;

export class Recent<Value> {
  readonly #apps = new Generations<Generations<Value>>(APPS);

  get(appId: string, words: string): Value | undefined {
    return this.#apps.get(appId)?.get(keyOf(words));
  }

  /** @param words of any length: no more than a hash of them is kept */
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

/** What was set last: between so many and twice as many. To remove the first of a map each time takes longer the larger it is. */
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
