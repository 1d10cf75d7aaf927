import { Agent, getAgentByName, routeAgentEmail } from 'agents';
import { type AgentEmail, createAddressBasedEmailResolver } from 'agents/email';
import PostalMime from 'postal-mime';

interface Env {
  Mailbox: DurableObjectNamespace<Mailbox>;
}

export class Mailbox extends Agent<Env, { mails: object[] }> {
  initialState = { mails: [] as object[] };

  async onEmail(email: AgentEmail) {
    const { subject, text } = await PostalMime.parse(await email.getRaw());
    const mail = {
      from: email.from,
      to: email.to,
      subject,
      text: text?.trim(),
    };
    this.setState({ mails: [...this.state.mails, mail] });
    if (subject === 'Refuse') return email.setReject('not wanted');
    await this.replyToEmail(email, {
      fromName: 'Mailbox',
      body: `Mail ${this.state.mails.length} has arrived`,
    });
  }

  async onRequest() {
    return Response.json(this.state.mails);
  }
}

const resolver = createAddressBasedEmailResolver('Mailbox');

export default {
  async email(message: ForwardableEmailMessage, env: Env) {
    await routeAgentEmail(message, env, { resolver });
  },
  async fetch(request: Request, env: Env) {
    const agent = await getAgentByName(env.Mailbox, new URL(request.url).pathname.slice(1));
    return agent.fetch(request);
  },
};
