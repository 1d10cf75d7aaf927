// Every operation through both transports, with inputs generated from the contract's schemas. A valid input is never
// refused as ill-formed. Junk is always refused clearly and changes nothing. Both transports answer the same.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as fc from 'fast-check';
import { CellarClient, Refused } from '../../../client/index.ts';
import { type ErrorCode, errorCodes, type ProblemBody } from '../../../handlers/contract/errors.ts';
import { type OperationName, operations } from '../../../handlers/contract/index.ts';
import { type Operation, pathNames } from '../../../handlers/contract/operation.ts';
import { alertKind } from '../../../handlers/contract/telemetry/alerts.ts';
import {
  fittingInput,
  type Input,
  inputSchema,
  junkInput,
  junkTexts,
} from '../../support/handlers/arbitraries.ts';
import { TestControl, TOKEN } from '../../support/handlers/control.ts';
import { randomCases } from '../../support/random.ts';

const cases = randomCases(4);
/** Timeout of an answer, in ms. */
const DEADLINE_MS = 5_000;
/** Error codes that any operation may answer with. */
const COMMON: readonly ErrorCode[] = ['invalid_input', 'malformed_json', 'body_too_large'];

const declared: readonly Operation[] = operations;
const isDeleting = ({ method }: Operation) => method === 'DELETE';
const deletingLast = [
  ...declared.filter((operation) => !isDeleting(operation)),
  ...declared.filter(isDeleting),
];
/** Operations with rules beyond their schemas: for paths, SQL statements, and fields that depend on each other. */
const hasOwnRules = ({ name }: Operation) =>
  /^(source|storage|alerts|builds)\.|^apps\.(move|update)$|^deploys\.(create|begin_upload)$|^(split\.set|mail\.routes\.set|tcp\.ports\.set|admin\.restore)$/.test(
    name,
  );

let control: TestControl;
let client: CellarClient;
/** Number of rows in each table. The audit log is separate, because it records refused changes, too. */
interface Rows {
  audit: number;
  others: Record<string, number>;
}
let countRows: () => Promise<Rows>;
/** The last count of the rows; null when it is out of date. */
let rows: Rows | null = null;
before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '1000000', HAS_BUCKET: 'true' });
  client = new CellarClient({ url: control.url, token: TOKEN });
  const database = await control.database();
  const { results } = await database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  const counts = results
    .map(({ name }: { name: string }) => name)
    .filter((name: string) => !/^(_cf|sqlite)_/.test(name))
    .map((name: string) => `(SELECT count(*) FROM ${name}) AS ${name}`);
  countRows = async () => {
    const { audit, ...others } = await database.prepare(`SELECT ${counts.join(', ')}`).first();
    return { audit, others };
  };
});
after(() => control.stop());

/** An answer of either transport: a problem or an output. */
interface Outcome {
  status: number;
  problem: ProblemBody | null;
  output: unknown;
}

for (const [kind, inputs] of [
  ['what fits its schema is never ill-formed', fittingInput],
  ['junk is refused clearly and writes no row', junkInput],
] as const) {
  test(`of every operation, ${kind}, over REST and RPC alike`, async () => {
    const known = await fixture();
    rows = null;
    for (const operation of deletingLast) {
      const property = fc.asyncProperty(inputs(operation, known), async (input) => {
        const refused = await runBoth(operation, input);
        const illFormed = refused?.code === 'invalid_input';
        assert.ok(inputs === junkInput || hasOwnRules(operation) || !illFormed, JSON.stringify(refused));
      });
      await fc
        .assert(property, { ...cases, seed: seedOf(operation.name), endOnFailure: true })
        .catch(describeFailure(operation));
    }
  });
}

/** Returns a seed for an operation that stays the same when others are added. */
function seedOf(name: string): number {
  return [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) | 0, cases.seed);
}

test('any text that is not an id is answered as an unknown id', async () => {
  const { id, ...known } = await fixture();
  const odd = junkTexts.filter((text) => text.isWellFormed());
  for (const operation of deletingLast.filter(({ kind }) => kind !== 'stream')) {
    const names = new Set(['id', 'account', 'owner', ...pathNames(operation.path ?? '')]);
    const [input] = fc.sample(fittingInput(operation, { ...known, id: fc.constant('nope') }), {
      ...cases,
      numRuns: 1,
    });
    for (const name of Object.keys(inputSchema(operation).properties ?? {}).filter((field) =>
      names.has(field),
    )) {
      const params = odd.map((text) => ({ ...input, [name]: text }));
      const calls = params.map((one, n) => ({ jsonrpc: '2.0', id: n, method: operation.name, params: one }));
      for (const { error, id: n } of (await control.rpc(calls)).body) {
        if (error) checkProblem(operation, error.data, error.data.status);
        assert.notEqual(error?.data.code, 'internal_error', `${operation.name} of ${JSON.stringify(odd[n])}`);
      }
    }
  }
});

test('written values read back as they were answered', async () => {
  const { id } = await control.create('reads-back');
  const readers: Partial<Record<string, (output: Input) => Promise<unknown>>> = {
    'events.log': async () => (await control.call('events.list', { id, limit: 1 })).items[0],
    'env.set': async ({ name }) => findItem('env.list', id, 'name', name),
    'insights.set': async ({ title }) => findItem('insights.list', id, 'title', title),
    'users.identify': ({ user_id }) => control.call('users.props', { id, user_id }),
    'builds.set': () => control.call('builds.get', { id }),
    'limits.set': () => control.call('limits.get', { id }),
    'maintenance.set': () => control.call('maintenance.get', { id }),
    'domains.add': async ({ hostname }) => findItem('domains.list', id, 'hostname', hostname),
  };
  for (const operation of declared) {
    const read = readers[operation.name];
    if (read === undefined) continue;
    // `events.list` sorts by an event's own time. Without one, the event that was just written comes first.
    const known = {
      id: fc.constant(id),
      hostname: fc.domain(),
      url: fc.webUrl(),
      on: fc.constant(['crash']),
      at: fc.constant(undefined),
    };
    const inputs = fc.oneof(fittingInput(operation, known), junkInput(operation, known));
    const property = fc.asyncProperty(inputs, async (input) => {
      const { problem, output } = await overRpc(operation, input);
      if (problem === null) assert.deepEqual(await read(output as Input), output);
    });
    await fc.assert(property, { ...cases, endOnFailure: true }).catch(describeFailure(operation));
  }
});

/** Searches a list, page by page, for the item whose field has the value. */
async function findItem(method: string, id: string, field: string, value: unknown): Promise<unknown> {
  for (let cursor: string | undefined; ; ) {
    const { items, next_cursor } = await control.call(method, { id, limit: 20, ...(cursor && { cursor }) });
    const found = items.find((item: Input) => item[field] === value);
    if (found !== undefined || next_cursor === null) return found;
    cursor = next_cursor;
  }
}

function describeFailure({ name }: Operation): (error: Error) => never {
  return (error) => {
    throw new Error(`${name}: ${error.message}\n${(error.cause as Error | undefined)?.stack ?? ''}`);
  };
}

/** Makes an app and an account, so that some inputs name existing records. @returns arbitraries by the name of the field */
async function fixture(): Promise<Record<string, fc.Arbitrary<unknown>>> {
  const number = Math.random().toString(36).slice(2, 10);
  const { id } = await control.create(`fuzz-${number}`);
  const account = await control.call('accounts.create', { name: 'Ada', email: `${number}@example.com` });
  const some = (...values: string[]) =>
    fc.constantFrom(...values, 'nope', ...junkTexts.filter((text) => text !== '' && text.length <= 200));
  return {
    id: fc.oneof({ weight: 2, arbitrary: fc.constant(id) }, some(account.id)),
    account: some(account.id),
    owner: some(account.id),
    expires_at: fc.constant('9998-01-01T00:00:00Z'),
    hostname: fc.domain(),
    url: fc.webUrl(),
    on: fc.subarray([...alertKind.options], { minLength: 1 }),
  };
}

/**
 * Calls both transports, REST first where it can carry the input, or the typed client where only the path cannot. A change
 * that the first call made is not repeated over RPC.
 * @returns the refusal; null on success
 */
async function runBoth(operation: Operation, input: Input): Promise<ProblemBody | null> {
  rows ??= await countRows();
  const rest = restRequest(operation, input);
  const first = rest
    ? await overRest(operation, rest)
    : leavesPath(operation, input)
      ? await overClient(operation, input)
      : null;
  const carriedOut = first !== null && first.problem === null;
  const second = carriedOut && operation.method !== 'GET' ? null : await overRpc(operation, input);
  if (operation.kind === 'bytes' && second !== null) second.output = null;
  if (first !== null && second !== null) assert.deepEqual(second, first);
  const { problem } = (second ?? first)!;
  if (problem === null) {
    if (operation.method !== 'GET') rows = null;
    return null;
  }
  const { audit, others } = await countRows();
  assert.deepEqual(others, rows.others, 'a refused call wrote something');
  const entries = audit - rows.audit;
  const isAudited = operation.method !== 'GET' && operation.audited !== false;
  const calls = isAudited ? [first, second].filter((call) => call !== null).length : 0;
  assert.ok(entries >= 0 && entries <= calls, `${entries} entries of the audit log about ${calls} calls`);
  rows.audit = audit;
  return problem;
}

async function overRest(operation: Operation, { path, init }: RestRequest): Promise<Outcome> {
  const { status, type, text } = await send(path, init);
  if (status >= 400) {
    assert.equal(type, 'application/problem+json', text);
    return { status, problem: checkProblem(operation, JSON.parse(text), status), output: null };
  }
  assert.ok(status === operation.status || (operation.replaces && status === 200), `status ${status}`);
  if (operation.kind === 'bytes') return { status, problem: null, output: null };
  const output = operation.kind === 'stream' ? type : status === 204 ? null : JSON.parse(text);
  return { status, problem: null, output: checkOutput(operation, output) };
}

/** Calls an operation with the typed client, which answers with JSON and validates the output. */
async function overClient(operation: Operation, input: Input): Promise<Outcome> {
  try {
    const output = await client.call(operation.name as OperationName, input as never);
    return { status: operation.status, problem: null, output };
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const { status } = error.problem;
    return { status, problem: checkProblem(operation, error.problem, status), output: null };
  }
}

async function overRpc(operation: Operation, params: Input): Promise<Outcome> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: operation.name, params });
  const { status, type, text } = await send('/rpc', { method: 'POST', body });
  assert.equal(status, 200, text);
  if (operation.kind === 'stream' && type === 'text/event-stream') {
    return { status: 200, problem: null, output: checkOutput(operation, type) };
  }
  const { error, result } = JSON.parse(text);
  if (error === undefined) {
    return { status: operation.status, problem: null, output: checkOutput(operation, result) };
  }
  const problem = checkProblem(operation, error.data, error.data.status);
  return { status: problem.status, problem, output: null };
}

/** Sends a request. @returns the answer, whose text is empty for a stream */
async function send(
  path: string,
  init: RequestInit,
): Promise<{ status: number; type: string; text: string }> {
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  const headers = {
    authorization: `Bearer ${TOKEN}`,
    ...(init.body != null && { 'content-type': 'application/json' }),
    ...init.headers,
  };
  const response = await fetch(control.url + path, { ...init, headers, signal: deadline });
  assert.ok(response.headers.get('x-request-id'));
  const type = response.headers.get('content-type') ?? '';
  if (type !== 'text/event-stream') return { status: response.status, type, text: await response.text() };
  await response.body!.cancel();
  return { status: response.status, type, text: '' };
}

function checkProblem(operation: Operation, problem: ProblemBody, status: number): ProblemBody {
  const text = JSON.stringify(problem);
  const codes: readonly string[] = [...COMMON, ...operation.errors];
  assert.ok(codes.includes(problem.code), `not among its errors: ${text}`);
  assert.equal(status, errorCodes[problem.code].status, text);
  assert.equal(problem.status, status);
  assert.ok(problem.title && problem.detail);
  if (problem.code === 'invalid_input')
    assert.ok(
      problem.errors!.every(({ message }) => message),
      text,
    );
  return problem;
}

function checkOutput(operation: Operation, output: unknown): unknown {
  if (operation.kind === 'stream') assert.equal(output, 'text/event-stream');
  else {
    const { error } = operation.output.safeParse(output);
    assert.equal(error, undefined, `${error?.message} in ${JSON.stringify(output)}`);
  }
  return output;
}

interface RestRequest {
  path: string;
  init: RequestInit;
}

/** Returns the REST request for an operation's input; null if REST cannot express it. */
function restRequest(operation: Operation, input: Input): RestRequest | null {
  if (operation.path === null) return null;
  const inPath = pathNames(operation.path);
  if (!inPath.every((name) => isSegment(input[name]))) return null;
  const path = operation.path.replace(/:(\w+)\+?/g, (_, name: string) =>
    encodeURIComponent(input[name] as string),
  );
  const rest = Object.entries(input).filter(([name]) => !inPath.includes(name));
  if (operation.method === 'POST' || operation.method === 'PATCH') {
    return { path, init: { method: operation.method, body: JSON.stringify(Object.fromEntries(rest)) } };
  }
  const { properties = {} } = inputSchema(operation);
  if (!rest.every(([name, value]) => isQueryValue(value, properties[name]?.type))) return null;
  if (rest.some(([name]) => !name.isWellFormed() || name in (operation.queryNames ?? {}))) return null;
  const names = Object.entries(operation.queryNames ?? {});
  const restName = (field: string) => names.find(([, name]) => name === field)?.[0] ?? field;
  const query = new URLSearchParams(rest.map(([name, value]) => [restName(name), String(value)]));
  return { path: rest.length > 0 ? `${path}?${query}` : path, init: { method: operation.method } };
}

/** Whether the input has a text in the path that the path cannot carry. The typed client must not call another operation. */
function leavesPath({ kind = 'json', path }: Operation, input: Input): boolean {
  if (path === null || kind !== 'json') return false;
  const words = pathNames(path).map((name) => input[name]);
  return words.every((word) => typeof word === 'string') && !words.every(isSegment);
}

/** Whether a path can carry the value: it is not empty and does not lead to another path. */
function isSegment(value: unknown): boolean {
  return typeof value === 'string' && value.isWellFormed() && !['', '.', '..'].includes(value);
}

/** Whether a query can carry the value so that it parses back to itself. */
function isQueryValue(value: unknown, type: unknown): boolean {
  if (type === 'integer' || type === 'number') {
    return typeof value === 'number' && /^-?\d{1,15}(\.\d{1,9})?$/.test(String(value));
  }
  // The text `true` would be parsed as a boolean.
  if (type === 'boolean') return typeof value === 'boolean';
  return typeof value === 'string' && value.isWellFormed();
}
