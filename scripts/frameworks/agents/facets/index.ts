import { Agent, callable, routeAgentRequest } from 'agents';

export class Notebook extends Agent {
  @callable()
  async write(note: string, text: string) {
    return (await this.subAgent(Note, note)).write(text);
  }

  @callable()
  async remove(note: string) {
    await this.deleteSubAgent(Note, note);
  }

  @callable()
  notes() {
    return this.listSubAgents(Note).map(({ name }) => name);
  }
}

export class Note extends Agent<object, { texts: string[] }> {
  initialState = { texts: [] as string[] };

  @callable()
  write(text: string) {
    this.setState({ texts: [...this.state.texts, text] });
    return this.state.texts.length;
  }
}

export default {
  async fetch(request: Request, env: object) {
    return (await routeAgentRequest(request, env)) ?? new Response('no such agent', { status: 404 });
  },
};
