// Agents, rooms, MCP servers and AI chats: small projects, written as the READMEs of their packages show. A project is a
// folder of `scripts/frameworks/agents/`: `index.ts` is its Worker, `client.mjs` a program that uses the deployed app.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type FrameworkProject, GITIGNORE, json, packageJson } from './project.ts';

const FOLDER = join(import.meta.dirname, 'agents');
/** Exact versions, because `agents` requires exact versions of its peer dependencies. */
const VERSIONS = {
  '@cloudflare/ai-chat': '0.12.2',
  '@cloudflare/think': '0.23.0',
  '@cloudflare/workers-oauth-provider': '1.2.3',
  '@modelcontextprotocol/client': '2.4.0',
  '@modelcontextprotocol/sdk': '1.32.2',
  '@modelcontextprotocol/server': '2.4.0',
  agents: '0.32.0',
  ai: '7.0.173',
  hono: '4.13.19',
  'hono-agents': '3.0.12',
  nodemailer: '10.6.1',
  partyserver: '0.5.10',
  partysocket: '1.3.0',
  'postal-mime': '2.7.5',
  'workers-ai-provider': '4.0.0',
  'y-partyserver': '2.2.0',
  yjs: '13.6.33',
  zod: '4.6.7',
};

interface Parts {
  name: string;
  folder: string;
  packages: (keyof typeof VERSIONS)[];
  /** Classes of Durable Objects. The name of each is also that of its binding. */
  classes?: string[];
  /** More of the Wrangler configuration. */
  config?: object;
}

function project({ name, folder, packages, classes = [], config = {} }: Parts): FrameworkProject {
  const read = (path: string) => readFileSync(join(FOLDER, path), 'utf8');
  return {
    name: `agents: ${name}`,
    byHand: {
      '.gitignore': GITIGNORE,
      'package.json': packageJson({
        dependencies: Object.fromEntries(packages.map((each) => [each, VERSIONS[each]])),
      }),
      'wrangler.jsonc': json({
        name: 'app',
        main: 'src/index.ts',
        compatibility_date: '2026-10-01',
        compatibility_flags: ['nodejs_compat'],
        durable_objects: { bindings: classes.map((each) => ({ name: each, class_name: each })) },
        ...(classes.length > 0 && { migrations: [{ tag: 'v1', new_sqlite_classes: classes }] }),
        ...config,
      }),
      'src/index.ts': read(`${folder}/index.ts`),
      'client.mjs': read(`${folder}/client.mjs`),
      'support.mjs': read('support.mjs'),
    },
    manager: 'npm',
    checks: [],
    assets: false,
    client: 'client.mjs',
  };
}

export const agents: FrameworkProject[] = [
  {
    name: 'state, calls and streams',
    folder: 'state',
    packages: ['agents', 'zod'] as const,
    classes: ['Counter'],
  },
  { name: 'schedules, queue and SQL', folder: 'schedule', packages: ['agents', 'zod'], classes: ['Diary'] },
  { name: 'calls by name', folder: 'calls', packages: ['agents', 'zod'], classes: ['Person', 'Team'] },
  { name: 'agents inside of an agent', folder: 'facets', packages: ['agents', 'zod'], classes: ['Notebook'] },
  {
    name: 'a Workflow with an approval',
    folder: 'workflow',
    packages: ['agents', 'zod'],
    classes: ['Order'],
    config: { workflows: [{ name: 'shipping', binding: 'SHIPPING', class_name: 'Shipping' }] },
  },
  {
    name: 'e-mail',
    folder: 'email',
    packages: ['agents', 'nodemailer', 'postal-mime', 'zod'],
    classes: ['Mailbox'],
  },
  { name: 'Hono', folder: 'hono', packages: ['agents', 'hono', 'hono-agents', 'zod'], classes: ['Echo'] },
  { name: 'PartyServer', folder: 'room', packages: ['partyserver', 'partysocket'], classes: ['Room'] },
  {
    name: 'a document of Yjs',
    folder: 'document',
    packages: ['partyserver', 'y-partyserver', 'yjs'],
    classes: ['Document'],
  },
  {
    name: 'an MCP server without sessions',
    folder: 'mcp',
    packages: [
      'agents',
      '@modelcontextprotocol/client',
      '@modelcontextprotocol/sdk',
      '@modelcontextprotocol/server',
      'zod',
    ],
    classes: ['Notes'],
  },
  {
    name: 'an MCP server with sessions, HTTP and SSE',
    folder: 'mcp-agent',
    packages: ['agents', '@modelcontextprotocol/sdk', '@modelcontextprotocol/server', 'zod'],
    classes: ['Calculator'],
  },
  {
    name: 'an MCP server with OAuth',
    folder: 'oauth',
    packages: [
      'agents',
      '@cloudflare/workers-oauth-provider',
      '@modelcontextprotocol/client',
      '@modelcontextprotocol/server',
      'zod',
    ],
    config: { kv_namespaces: [{ binding: 'OAUTH_KV', id: 'oauth' }] },
  },
  {
    name: 'a client of an MCP server',
    folder: 'mcp-client',
    packages: [
      'agents',
      '@modelcontextprotocol/client',
      '@modelcontextprotocol/sdk',
      '@modelcontextprotocol/server',
      'zod',
    ],
    classes: ['Dice', 'Player'],
  },
  {
    name: 'an AI chat',
    folder: 'chat',
    packages: ['@cloudflare/ai-chat', 'agents', 'ai', 'workers-ai-provider', 'zod'],
    classes: ['Chat'],
    config: { ai: { binding: 'AI' } },
  },
  {
    name: 'the AI SDK with a tool',
    folder: 'tools',
    packages: ['ai', 'workers-ai-provider', 'zod'],
    config: { ai: { binding: 'AI' } },
  },
].map((parts) => project(parts as Parts));
