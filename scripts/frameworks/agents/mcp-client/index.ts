import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { Agent, callable, routeAgentRequest } from 'agents';
import { McpAgent } from 'agents/mcp';
import { z } from 'zod';

interface Env {
  Dice: DurableObjectNamespace<Dice>;
}

export class Dice extends McpAgent<Env> {
  server = new McpServer({ name: 'Dice', version: '1.0.0' });

  async init() {
    this.server.registerTool(
      'roll',
      { description: 'Rolls a die', inputSchema: { sides: z.number() } },
      async ({ sides }) => ({ content: [{ type: 'text', text: `1 of ${sides}` }] }),
    );
  }
}

export class Player extends Agent<Env> {
  @callable()
  async join() {
    await this.addMcpServer('dice', this.env.Dice as never);
    return this.mcp.listTools().map(({ name }) => name);
  }

  @callable()
  async play(sides: number) {
    const [{ serverId, name }] = this.mcp.listTools() as [{ serverId: string; name: string }];
    return this.mcp.callTool({ serverId, name, arguments: { sides } });
  }
}

export default {
  async fetch(request: Request, env: Env) {
    return (await routeAgentRequest(request, env)) ?? new Response('no such agent', { status: 404 });
  },
};
