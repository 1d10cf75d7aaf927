import { Agent } from 'agents';
import { Hono } from 'hono';
import { agentsMiddleware } from 'hono-agents';

export class Echo extends Agent {
  onMessage(connection: { send(message: string): void }, message: string) {
    connection.send(`${this.name} heard ${message}`);
  }

  async onRequest() {
    return new Response(`I am ${this.name}`);
  }
}

const app = new Hono();
const authorize = async (request: Request) =>
  new URL(request.url).searchParams.get('token') === 'right'
    ? undefined
    : new Response('no', { status: 401 });
app.use('*', agentsMiddleware({ options: { onBeforeConnect: authorize, onBeforeRequest: authorize } }));
app.get('/', (c) => c.text('Hono'));

export default app;
