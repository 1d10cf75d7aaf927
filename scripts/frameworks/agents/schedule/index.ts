import { Agent, callable, routeAgentRequest } from 'agents';

export class Diary extends Agent {
  onStart() {
    this.sql`CREATE TABLE IF NOT EXISTS lines (line TEXT)`;
  }

  write(line: string) {
    this.sql`INSERT INTO lines (line) VALUES (${line})`;
    this.broadcast(JSON.stringify({ line }));
  }

  @callable()
  async later(seconds: number, line: string) {
    return (await this.schedule(seconds, 'write', line)).id;
  }

  @callable()
  async soon(line: string) {
    await this.queue('write', line);
  }

  @callable()
  async every(seconds: number, line: string) {
    return (await this.scheduleEvery(seconds, 'write', line)).id;
  }

  @callable()
  async daily() {
    return (await this.schedule('0 9 * * *', 'write', 'nine')).type;
  }

  @callable()
  cancel(id: string) {
    return this.cancelSchedule(id);
  }

  @callable()
  lines() {
    return this.sql<{ line: string }>`SELECT line FROM lines`.map(({ line }) => line);
  }
}

export default {
  async fetch(request: Request, env: object) {
    return (await routeAgentRequest(request, env)) ?? new Response('no such agent', { status: 404 });
  },
};
