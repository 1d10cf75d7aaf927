// A binding to a dispatch namespace in an app's Worker. Scripts are the Workers in the namespace; the host finds the called
// script at each request. An outbound Worker, if there is one, receives the outgoing requests of scripts.

/** The header with the name of the called script and a random id of the call. The host reads and removes it. */
const SCRIPT_HEADER = 'x-cellar-script';
/** The response header by which the host reports a missing script. Its value is the call's random id, which no script knows. */
const NO_SCRIPT_HEADER = 'x-cellar-no-script';
/**
 * The header with the parameters for the outbound Worker, as JSON. The host reads it, and sends the script an id instead.
 */
const OUTBOUND_HEADER = 'x-cellar-outbound';
/** Maximum length of the parameters for the outbound Worker as JSON, in ASCII characters. */
const VALUES_LENGTH = 4_096;
const NAME = /^[A-Za-z0-9_-]{1,63}$/;

/** workerd's own globals, taken before the app can replace them. */
const { Request, console, crypto } = globalThis;

let hasWarned = false;

/**
 * Warns once: workerd has no limits for a single request. A Worker that sets them, as on Cloudflare, runs without limits.
 */
function warnOfLimits() {
  if (hasWarned) return;
  hasWarned = true;
  console.warn(
    'get(): limits have no effect on this Cellar; set "limits" in the configuration of the script instead',
  );
}

/** Returns the parameters' values as JSON in ASCII; null without an outbound Worker. @throws {TypeError} for wrong values */
function valuesOf(names, outbound) {
  if (names === null) {
    if (outbound === undefined) return null;
    throw new TypeError('get(): "outbound" needs "outbound" in the configuration of the binding');
  }
  const unknown = Object.keys(outbound ?? {}).find((name) => !names.includes(name));
  if (unknown !== undefined)
    throw new TypeError(`get(): "outbound": add ${unknown} to the "parameters" of the binding's "outbound"`);
  const json = JSON.stringify(outbound ?? {}).replace(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  if (json.length <= VALUES_LENGTH) return json;
  throw new TypeError(`get(): "outbound" has ${json.length} characters as JSON, more than ${VALUES_LENGTH}`);
}

class Script {
  #name;
  #scripts;
  #values;

  /** @param values the parameters for the outbound Worker, as JSON; null without an outbound Worker */
  constructor(name, scripts, values) {
    this.#values = values;
    this.#name = name;
    this.#scripts = scripts;
  }

  /** Sends a request to the script. @throws {Error} "Worker not found." if the namespace has no such script */
  async fetch(input, init) {
    const request = new Request(input, init);
    if (!NAME.test(this.#name)) throw new Error('Worker not found.');
    const call = crypto.randomUUID();
    request.headers.set(SCRIPT_HEADER, `${this.#name} ${call}`);
    if (this.#values !== null) request.headers.set(OUTBOUND_HEADER, this.#values);
    const answer = await this.#scripts.fetch(request);
    if (answer.headers.get(NO_SCRIPT_HEADER) === call) throw new Error('Worker not found.');
    return answer;
  }
}

class DispatchNamespace {
  #scripts;
  #parameters;

  /** @param parameters names of the parameters for the outbound Worker; null without such a Worker */
  constructor(scripts, parameters) {
    this.#scripts = scripts;
    this.#parameters = parameters;
  }

  /** Returns an object that calls a script, even if the script is missing. The second argument has no effect. */
  get(name, _args, options) {
    if (typeof name !== 'string') throw new TypeError('get(): the name of the script must be a string');
    const { limits, outbound } = options ?? {};
    if (limits !== undefined) warnOfLimits();
    return new Script(name, this.#scripts, valuesOf(this.#parameters, outbound));
  }
}

export default ({ scripts, parameters }) => new DispatchNamespace(scripts, parameters);
