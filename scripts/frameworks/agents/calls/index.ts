import { Agent, getAgentByName } from 'agents';

interface Env {
  Person: DurableObjectNamespace<Person>;
  Team: DurableObjectNamespace<Team>;
}

export class Person extends Agent<Env, { greeted: number }> {
  initialState = { greeted: 0 };

  async greet({ from }: { from: string }) {
    this.setState({ greeted: this.state.greeted + 1 });
    return { text: `${from} greets ${this.name}`, at: new Date(0), times: this.state.greeted };
  }

  async onRequest(request: Request) {
    return Response.json({ name: this.name, method: request.method, body: await request.text() });
  }
}

export class Team extends Agent<Env> {
  async greetAll(names: string[]) {
    const people = await Promise.all(names.map((name) => getAgentByName(this.env.Person, name)));
    return Promise.all(people.map((person) => person.greet({ from: this.name })));
  }
}

export default {
  async fetch(request: Request, env: Env) {
    const { pathname } = new URL(request.url);
    const [, kind, name = ''] = pathname.split('/');
    if (kind === 'person') return (await getAgentByName(env.Person, name)).fetch(request);
    const team = await getAgentByName(env.Team, 'cellar');
    return Response.json(await team.greetAll(['Ann', 'Bob', 'Ann']));
  },
};
