// Generates the OpenAPI 3.1 document from the contract.
import { errorCodes } from '../../contract/errors.ts';
import { operations } from '../../contract/index.ts';
import { tagMeanings } from '../../contract/meanings.ts';
import { type Operation, pathNames } from '../../contract/operation.ts';
import { type OtherRoute, otherRoutes } from '../../contract/other-routes.ts';
import { IDEMPOTENCY_KEY } from '../idempotency.ts';
import { components, examples, inputSchema, type Json, only, outputSchema } from '../schemas.ts';
import { failures, problemSchema, problems, rpcFailure, successes, WITH_BODY } from './answers.ts';

const declared: readonly Operation[] = operations;

/** Returns the OpenAPI document. @param url the API's public URL */
export function openapi(url: string): Json {
  const paths: Record<string, Json> = {};
  const add = (path: string, method: string, described: Json) => {
    paths[path] = { ...paths[path], [method.toLowerCase()]: described };
  };
  for (const operation of declared) {
    if (operation.path !== null) add(openapiPath(operation), operation.method, describe(operation));
    // Clients never send the part after `#`, so a generated client calls POST /rpc with this body.
    else add(`/rpc#${operation.name}`, 'POST', describeRpc(operation));
  }
  for (const route of otherRoutes) add(route.path, route.method, describeOther(route));
  return {
    openapi: '3.1.0',
    info: {
      title: 'Cellar',
      version: '1',
      license: { name: 'MIT', identifier: 'MIT' },
      description:
        'Runs Workers apps. Every operation is also a JSON-RPC 2.0 method at POST /rpc, named by its operationId. Operations that ' +
        'are RPC only are described as `/rpc#<method>`: a call of POST /rpc with that method.',
    },
    servers: [{ url }],
    security: [{ token: [] }],
    tags: tagsOf(paths),
    paths,
    components: {
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          description: 'RUNNER_TOKEN, or an API key with the rights of its account',
        },
        git: {
          type: 'http',
          scheme: 'basic',
          description: 'User `git`, with an API key of the account as the password',
        },
      },
      parameters: {
        IdempotencyKey: {
          name: 'Idempotency-Key',
          in: 'header',
          required: false,
          description:
            'A repeated request with the same key and input from the same caller gets the first response, also a refusal, for a day. A request that failed and changed nothing runs again',
          schema: { type: 'string', pattern: IDEMPOTENCY_KEY.source },
        },
      },
      schemas: { ...components(), Problem: problemSchema(), RpcFailure: rpcFailure },
    },
  };
}

function describe(operation: Operation): Json {
  const { name, summary, method, path, needs } = operation;
  const schema = inputSchema(name, operation.input) as {
    properties: Record<string, Json>;
    required?: string[];
  };
  const inPath = pathNames(path!);
  const rest = Object.keys(schema.properties).filter((field) => !inPath.includes(field));
  const headers = headersOf(operation);
  // Generated clients use one variable for a header and a query field of the same name.
  const asHeader = (field: string) => headers.some((header) => variableOf(header) === variableOf(field));
  const inQuery = method === 'GET' || method === 'DELETE' ? rest.filter((field) => !asHeader(field)) : [];
  const takesBody = method !== 'GET' && method !== 'DELETE' && rest.length > 0;
  const required = new Set(schema.required);
  const restName = (field: string) =>
    Object.entries(operation.queryNames ?? {}).find(([, input]) => input === field)?.[0] ?? field;
  const parameter = (place: string, field: string) => ({
    name: place === 'query' ? restName(field) : pathName(operation, field),
    in: place,
    required: place === 'path' || required.has(field),
    ...described(schema.properties[field]!),
  });
  return {
    operationId: name,
    summary,
    tags: [name.split('.')[0]],
    'x-needs': needs,
    parameters: [
      ...inPath.map((field) => parameter('path', field)),
      ...inQuery.map((field) => parameter('query', field)),
      ...(method === 'GET' ? [] : [KEY]),
      ...headers.map((header) => {
        const field = rest.find((field) => variableOf(field) === variableOf(header));
        const description =
          field &&
          `${schema.properties[field]!.description} Can also be given as the query field \`${field}\`.`;
        return { ...headerParameter(header), ...(description && { description }) };
      }),
    ],
    ...(takesBody && { requestBody: bodyOf(name, schema, rest, required) }),
    responses: { ...successes(operation), ...failures(operation) },
  };
}

const KEY = { $ref: '#/components/parameters/IdempotencyKey' };

/** Returns the standard HTTP headers that an operation reads. */
function headersOf({ kind }: Operation): string[] {
  if (kind === 'stream') return ['Last-Event-ID'];
  return kind === 'bytes' ? ['Range', 'If-None-Match'] : [];
}

/** Normalizes a name, so that names with the same variable in generated clients are equal. */
function variableOf(name: string): string {
  return name.toLowerCase().replaceAll(/[-_]/g, '');
}

function headerParameter(name: string): Json {
  return { name, in: 'header', required: false, schema: { type: 'string' } };
}

/** Moves a schema's description to the parameter, where OpenAPI expects the description. */
function described({ description, ...schema }: Json): Json {
  return { ...(description !== undefined && { description }), schema };
}

function tagsOf(paths: Record<string, Json>): Json[] {
  const operations = Object.values(paths).flatMap((path) => Object.values(path) as { tags: string[] }[]);
  const names = [...new Set(operations.flatMap(({ tags }) => tags))];
  return names.map((name) => ({ name, description: tagMeanings[name] }));
}

function bodyOf(
  name: string,
  schema: { properties: Record<string, Json> },
  fields: string[],
  required: Set<string>,
): Json {
  const example = examples[name];
  const properties = Object.fromEntries(fields.map((field) => [field, schema.properties[field]]));
  const needed = fields.filter((field) => required.has(field));
  return {
    required: needed.length > 0,
    content: {
      'application/json': {
        schema: { type: 'object', properties, required: needed, additionalProperties: false },
        ...(example && { example }),
      },
    },
  };
}

function describeOther(route: OtherRoute): Json {
  const { name, path, summary, auth, query = [], headers = [], takes, answers, errors } = route;
  const { idempotent, optionalQuery = [], schema, unavailable } = route;
  const text = { type: 'string' };
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  return {
    operationId: name,
    summary,
    tags: ['other'],
    security: auth === 'none' ? [] : [{ [auth]: [] }],
    parameters: [
      ...names.map((field) => ({ name: field, in: 'path', required: true, schema: text })),
      ...query.map((field) => ({ name: field, in: 'query', required: true, schema: text })),
      ...optionalQuery.map((field) => ({ name: field, in: 'query', required: false, schema: text })),
      ...headers.map(headerParameter),
      ...(idempotent ? [KEY] : []),
    ],
    ...(takes && { requestBody: { content: { [takes]: contentOf(takes) } } }),
    responses: {
      200: { description: 'Done', content: { [answers]: schema ? { schema } : contentOf(answers) } },
      ...problems(errors, path === '/rpc'),
      ...(unavailable && {
        503: { description: 'The parts that do not work', content: { [answers]: { schema: unavailable } } },
      }),
    },
  };
}

/** Returns the OpenAPI content for a media type without a schema in the contract: text, bytes, or any JSON. */
function contentOf(type: string): Json {
  if (type === 'application/json') return {};
  return { schema: { type: 'string', ...(!type.startsWith('text/') && { format: 'binary' }) } };
}

function describeRpc(operation: Operation): Json {
  const { name, summary, needs, method, input, output, kind } = operation;
  const id = { type: ['string', 'integer'] };
  const example = examples[name];
  const params = inputSchema(name, input);
  const takesParams = Object.keys(params.properties as Json).length > 0;
  const request = {
    type: 'object',
    properties: {
      jsonrpc: only('2.0'),
      id: { type: 'integer' },
      method: only(name),
      ...(takesParams && { params }),
    },
    required: ['jsonrpc', 'id', 'method', ...(takesParams ? ['params'] : [])],
  };
  const result = {
    type: 'object',
    properties: { jsonrpc: only('2.0'), id, result: outputSchema(output) },
    required: ['jsonrpc', 'id', 'result'],
  };
  const answer = { anyOf: [result, { $ref: '#/components/schemas/RpcFailure' }] };
  const sent = example && { jsonrpc: '2.0', id: 1, method: name, params: example };
  const codes = operation.errors.map((code) => `\`${code}\`: ${errorCodes[code].meaning}`);
  return {
    operationId: name,
    summary,
    ...(codes.length > 0 && { description: `Refused in \`error.data\` with\n\n${codes.join('\n\n')}` }),
    tags: [name.split('.')[0]],
    'x-needs': needs,
    parameters: method === 'GET' ? [] : [KEY],
    requestBody: {
      required: true,
      content: { 'application/json': { schema: request, ...(sent && { example: sent }) } },
    },
    responses: {
      200: {
        description: 'Done, or refused',
        content: { [kind === 'stream' ? 'text/event-stream' : 'application/json']: { schema: answer } },
      },
      ...problems(['unauthorized', ...WITH_BODY], true),
    },
  };
}

/** Returns the path with its parameters in braces. */
function openapiPath(operation: Operation): string {
  return operation.path!.replace(/:(\w+)\+?/g, (_, field: string) => `{${pathName(operation, field)}}`);
}

/**
 * Returns the name of a path parameter, with a prefix if the query has a field of the same name: generated clients need it.
 */
function pathName({ queryNames }: Operation, field: string): string {
  return Object.hasOwn(queryNames ?? {}, field) ? `app_${field}` : field;
}
