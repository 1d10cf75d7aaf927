// The Model Context Protocol, implemented by its official library. Each message gets a new server. Loaded on the first message.
import { type CallToolResult, createMcpHandler, ProtocolError, Server } from '@modelcontextprotocol/server';
import * as z from 'zod';
import type { Context } from '../context.ts';
import { operationsByName } from '../contract/index.ts';
import { isDestructive, type Operation } from '../contract/operation.ts';
import { Problem } from '../problem.ts';
import { failure } from '../transports/failure.ts';
import { validate } from '../transports/validate.ts';
import { listResources, readResource, resourceTemplates } from './resources.ts';
import { run, type Shown } from './run.ts';
import { callable, inputSchema, isDirect, type OwnTool, REACHING, slim, toolName, tools } from './tools.ts';

/** JSON-RPC error code for an unknown resource. */
const RESOURCE_NOT_FOUND = -32002;
/** JSON-RPC error code for invalid parameters. */
const INVALID_PARAMS = -32602;

const INSTRUCTIONS = `Cellar runs Workers apps (JavaScript or TypeScript for workerd, as for Cloudflare Workers) on the operator's own machines.
To make an app: apps_create, then source_commit with its files (index.js with \`export default { fetch(request, env) {…} }\`, and for
bindings a wrangler.jsonc). A commit deploys: call deploys_get until its status is live or failed, and on failure read deploys_log.
errors_list and errors_get show errors of the live app, logs_list shows its log. deploys_rollback makes an earlier release live again.
Name an app by its slug or id in \`id\`. Lists have \`limit\` and \`cursor\`. For operations without a tool, see api_operations.`;

/** Answers one message of the protocol. @param readOnly whether to offer only tools that change nothing */
export function serve(
  request: Request,
  parsedBody: unknown,
  context: Context,
  readOnly: boolean,
): Promise<Response> {
  const handler = createMcpHandler(() => serverFor(context, readOnly));
  return handler.fetch(request, parsedBody === null ? {} : { parsedBody });
}

function serverFor(context: Context, readOnly: boolean): Server {
  const server = new Server(
    { name: 'cellar', title: 'Cellar', version: '1' },
    { capabilities: { tools: {}, resources: {} }, instructions: INSTRUCTIONS },
  );
  const offered = tools.filter(({ changes }) => !readOnly || !changes);
  server.setRequestHandler('tools/list', async () => ({ tools: offered.map(({ tool }) => tool) }));
  server.setRequestHandler('tools/call', async ({ params }) => {
    const own = offered.find(({ tool }) => tool.name === params.name);
    if (own === undefined) {
      const why = readOnly
        ? 'no tool of this name at this address, where agents can only read'
        : 'no tool of this name';
      throw new ProtocolError(INVALID_PARAMS, `${params.name}: there is ${why}.`);
    }
    return answered(context, () => call(context, own, params.arguments ?? {}));
  });
  server.setRequestHandler('resources/list', async () => ({ resources: await listResources(context) }));
  server.setRequestHandler('resources/templates/list', async () => ({ resourceTemplates }));
  server.setRequestHandler('resources/read', async ({ params }) => {
    try {
      return { contents: [await readResource(context, params.uri)] };
    } catch (error) {
      const problem = await failure(error, context);
      throw new ProtocolError(RESOURCE_NOT_FOUND, `${problem.code}: ${problem.message}`, { uri: params.uri });
    }
  });
  return server;
}

async function call(
  context: Context,
  { tool, operation }: OwnTool,
  given: Record<string, unknown>,
): Promise<Shown> {
  if (operation !== null) return run(context, operation, given);
  if (tool.name === 'api_operations') {
    validate(REACHING.api_operations, given);
    const others = callable.filter((each) => !isDirect(each));
    const lines = others.map(
      (each) => `${each.name} (${each.method === 'GET' ? 'reads' : 'changes'}): ${each.summary}`,
    );
    return { text: lines.join('\n'), hint: null };
  }
  if (tool.name === 'api_describe') {
    const { name } = validate(REACHING.api_describe, given);
    return { text: JSON.stringify(described(operationNamed(name))), hint: null };
  }
  const { name, params = {} } = validate(REACHING.api_read, given);
  const named = operationNamed(name);
  if (tool.name === 'api_read' && named.method !== 'GET') {
    throw new Problem('invalid_input', `${named.name} changes something: use api_change.`);
  }
  return run(context, named, params);
}

function operationNamed(name: string): Operation {
  const operation = operationsByName.get(name);
  if (operation !== undefined && callable.includes(operation)) return operation;
  throw new Problem('invalid_input', `There is no operation ${name}; api_operations lists them.`);
}

function described(operation: Operation): object {
  const { name, summary, needs, output } = operation;
  return {
    name,
    summary,
    needs,
    tool: isDirect(operation) ? toolName(name) : operation.method === 'GET' ? 'api_read' : 'api_change',
    destroys: isDestructive(operation),
    input: inputSchema(operation),
    answer: slim(z.toJSONSchema(output, { io: 'output' })),
  };
}

/** Runs a tool. Errors are results too, so that the agent reads them and tries something else. */
async function answered(context: Context, work: () => Promise<Shown>): Promise<CallToolResult> {
  try {
    const { text, hint } = await work();
    const parts = hint === null ? [text] : [text, hint];
    return { content: parts.map((part) => ({ type: 'text', text: part })) };
  } catch (error) {
    const problem = await failure(error, context);
    const fields = problem.errors?.map(({ path, message }) => `\n${path}: ${message}`).join('') ?? '';
    return {
      isError: true,
      content: [{ type: 'text', text: `${problem.code}: ${problem.message}${fields}` }],
    };
  }
}
