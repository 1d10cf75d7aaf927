import { Agent, callable, routeAgentRequest } from 'agents';

export class Counter extends Agent<object, { count: number }> {
  initialState = { count: 0 };

  @callable()
  add(n: number) {
    this.setState({ count: this.state.count + n });
    return this.state.count;
  }

  @callable()
  fail() {
    throw new Error('it failed');
  }

  @callable({ streaming: true })
  async countTo(stream: { send(value: number): void; end(value: string): void }, n: number) {
    for (let i = 1; i <= n; i++) stream.send(i);
    stream.end('done');
  }
}

export default {
  async fetch(request: Request, env: object) {
    return (await routeAgentRequest(request, env)) ?? new Response('no such agent', { status: 404 });
  },
};
