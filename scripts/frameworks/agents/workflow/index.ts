import { Agent, callable, routeAgentRequest } from 'agents';
import { AgentWorkflow, type AgentWorkflowStep } from 'agents/workflows';

export class Order extends Agent<object, { events: string[] }> {
  initialState = { events: [] as string[] };

  note(event: string) {
    this.setState({ events: [...this.state.events, event] });
  }

  @callable()
  place(item: string) {
    return this.runWorkflow('SHIPPING', { item });
  }

  @callable()
  async approve(id: string) {
    await this.approveWorkflow(id, { metadata: { reason: 'paid' } });
  }

  @callable()
  status(id: string) {
    return this.getWorkflow(id)?.status;
  }

  async onWorkflowProgress(_name: string, _id: string, { status }: { status: string }) {
    this.note(`progress ${status}`);
  }

  async onWorkflowComplete(_name: string, _id: string, result: { shipped: string }) {
    this.note(`complete ${result.shipped}`);
  }
}

export class Shipping extends AgentWorkflow<Order, { item: string }> {
  async run(event: { payload: { item: string } }, step: AgentWorkflowStep) {
    const { item } = event.payload;
    const packed = await step.do('pack', async () => `packed ${item}`);
    await this.agent.note(packed);
    await this.reportProgress({ status: 'waits' });
    const { reason } = (await this.waitForApproval(step, { timeout: '1 hour' })) as { reason: string };
    const result = { shipped: `${item}, ${reason}` };
    await step.reportComplete(result);
    return result;
  }
}

export default {
  async fetch(request: Request, env: object) {
    return (await routeAgentRequest(request, env)) ?? new Response('no such agent', { status: 404 });
  },
};
