import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { CfWorkerJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/cfworker';
import { McpAgent } from 'agents/mcp';
import { z } from 'zod';

interface Env {
  Calculator: DurableObjectNamespace<Calculator>;
}

export class Calculator extends McpAgent<Env, { sum: number }> {
  // The default validator generates code at run time, which Workers forbid.
  server = new McpServer(
    { name: 'Calculator', version: '1.0.0' },
    { jsonSchemaValidator: new CfWorkerJsonSchemaValidator() },
  );
  initialState = { sum: 0 };

  async init() {
    this.server.registerResource('sum', 'calculator://sum', {}, (uri) => ({
      contents: [{ uri: uri.href, text: String(this.state.sum) }],
    }));
    this.server.registerTool(
      'add',
      { description: 'Adds to the sum', inputSchema: { n: z.number() } },
      async ({ n }) => {
        this.setState({ sum: this.state.sum + n });
        return { content: [{ type: 'text', text: String(this.state.sum) }] };
      },
    );
    this.server.registerTool('ask', { description: 'Asks the user', inputSchema: {} }, async () => {
      const { action, content } = await this.server.server.elicitInput({
        message: 'How many?',
        requestedSchema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
      });
      return { content: [{ type: 'text', text: `${action} ${content?.n}` }] };
    });
    this.server.registerTool(
      'slow',
      { description: 'Reports progress', inputSchema: {} },
      async (_, extra) => {
        for (const progress of [1, 2]) {
          await extra.sendNotification({
            method: 'notifications/progress',
            params: { progressToken: extra._meta!.progressToken!, progress, total: 2 },
          });
          // The client drops a progress notification that arrives together with the answer.
          await scheduler.wait(200);
        }
        return { content: [{ type: 'text', text: 'done' }] };
      },
    );
  }
}

const options = { binding: 'Calculator' };

export default {
  fetch(request: Request, env: Env, ctx: ExecutionContext) {
    const { pathname } = new URL(request.url);
    if (pathname.startsWith('/sse')) return Calculator.serveSSE('/sse', options).fetch(request, env, ctx);
    if (pathname === '/mcp') return Calculator.serve('/mcp', options).fetch(request, env, ctx);
    return new Response('Not found', { status: 404 });
  },
};
