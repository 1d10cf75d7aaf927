import { env } from 'cloudflare:workers';
import { McpServer } from '@modelcontextprotocol/server';
import { Agent, getAgentByName } from 'agents';
import { createMcpHandler } from 'agents/mcp/server';
import { z } from 'zod';

export class Notes extends Agent<Env, { notes: string[] }> {
  initialState = { notes: [] as string[] };

  add(note: string) {
    this.setState({ notes: [...this.state.notes, note] });
    return this.state.notes.length;
  }
}

interface Env {
  Notes: DurableObjectNamespace<Notes>;
}

function createServer() {
  const server = new McpServer({ name: 'Notes', version: '1.0.0' });
  server.registerTool(
    'addNote',
    { description: 'Adds a note', inputSchema: z.object({ note: z.string() }) },
    async ({ note }) => {
      const notes = await getAgentByName((env as Env).Notes, 'all');
      return { content: [{ type: 'text', text: `You have ${await notes.add(note)} notes` }] };
    },
  );
  return server;
}

const handler = createMcpHandler(createServer);

export default {
  fetch: (request: Request, environment: Env, ctx: ExecutionContext) => handler(request, environment, ctx),
};
