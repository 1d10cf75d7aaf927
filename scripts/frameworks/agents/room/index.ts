import { type Connection, routePartykitRequest, Server } from 'partyserver';

export class Room extends Server {
  static options = { hibernate: true };

  onConnect(connection: Connection<{ number: number }>) {
    const number = [...this.getConnections()].length;
    connection.setState({ number });
    connection.send(`you are ${number} in ${this.name}`);
  }

  onMessage(connection: Connection<{ number: number }>, message: string) {
    this.broadcast(`${connection.state!.number}: ${message}`, [connection.id]);
  }

  onRequest() {
    return Response.json({ room: this.name, connections: [...this.getConnections()].length });
  }
}

export default {
  async fetch(request: Request, env: object) {
    return (await routePartykitRequest(request, env as never)) ?? new Response('Not Found', { status: 404 });
  },
};
