// A binding to a dispatch namespace in an app's Worker. The host finds the script at each request.

/** The header that names the called script, and the call by a random text. The host reads it, and no script gets it. */
const SCRIPT_HEADER = 'x-cellar-script';
/** The header of an answer of the host when there is no such script. It repeats the call's text, which no script knows. */
const NO_SCRIPT_HEADER = 'x-cellar-no-script';
const NAME = /^[A-Za-z0-9_-]{1,63}$/;

/** Taken before the app can replace them. */
const { Request, console, crypto } = globalThis;

let hasWarned = false;

/** workerd has no limits of a request. A Worker that is written for Cloudflare runs, and its author learns of it. */
function warnOfLimits() {
  if (hasWarned) return;
  hasWarned = true;
  console.warn(
    'get(): limits have no effect on this Cellar; set "limits" in the configuration of the script instead',
  );
}

class Script {
  #name;
  #scripts;

  constructor(name, scripts) {
    this.#name = name;
    this.#scripts = scripts;
  }

  /** @throws {Error} "Worker not found." */
  async fetch(input, init) {
    const request = new Request(input, init);
    if (!NAME.test(this.#name)) throw new Error('Worker not found.');
    const call = crypto.randomUUID();
    request.headers.set(SCRIPT_HEADER, `${this.#name} ${call}`);
    const answer = await this.#scripts.fetch(request);
    if (answer.headers.get(NO_SCRIPT_HEADER) === call) throw new Error('Worker not found.');
    return answer;
  }
}

class DispatchNamespace {
  #scripts;

  constructor(scripts) {
    this.#scripts = scripts;
  }

  /** Returns a script, which may be missing. The second argument has no meaning, as on Cloudflare. */
  get(name, _args, options) {
    if (typeof name !== 'string') throw new TypeError('get(): the name of the script must be a string');
    const { limits, outbound } = options ?? {};
    if (outbound !== undefined) throw new Error('get(): "outbound" is not available on this Cellar');
    if (limits !== undefined) warnOfLimits();
    return new Script(name, this.#scripts);
  }
}

export default ({ scripts }) => new DispatchNamespace(scripts);
