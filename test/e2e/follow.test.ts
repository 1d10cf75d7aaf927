// Following a deploy while it runs: its log as far as it has come, and the stream of its app's deploys.
import assert from 'node:assert/strict';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/e2e/processes.ts';
import { EventReader, type SentEvent } from '../support/handlers/events-source.ts';

interface Shown {
  id?: string;
  status?: string;
  finished_at?: string | null;
  lines?: string[];
}
const shown = ({ data }: SentEvent) => JSON.parse(data!) as Shown;

test('the pusher, the log and the stream have each line as it comes, and the stream resumes among them', async () => {
  await using cellar = await new Cellar().start();
  const id = await cellar.create('followed');
  const work = await cellar.checkout('hello');
  const build = 'echo before; while [ ! -e go ]; do sleep 0.02; done; seq 300; echo after';
  writeFileSync(join(work, 'package.json'), JSON.stringify({ scripts: { build } }));
  await cellar.commit(work, 'slow');
  const follow = (headers: Record<string, string> = {}) =>
    EventReader.open(`${cellar.api}/v1/apps/${id}/deploys/stream`, {
      headers: { authorization: `Bearer ${cellar.token}`, ...headers },
    });
  const received: SentEvent[] = [];
  const readUntil = async (reader: EventReader, end: (event: Shown) => boolean) => {
    do received.push(...(await reader.take(1)));
    while (!end(shown(received.at(-1)!)));
    reader.close();
  };

  const first = await follow();
  const printed = join(cellar.directory, 'printed');
  const push = `alias.watched=!git push "${cellar.remote('followed')}" HEAD:main 2> ${printed}`;
  const pushed = cellar.git(work, '-c', push, 'watched');
  await readUntil(first, ({ lines }) => lines?.includes('before') === true);
  const deployId = received.map(shown).find(({ status }) => status === 'building')!.id;
  const log = async () => (await cellar.call('GET', `/v1/apps/${id}/deploys/${deployId}/log`)).body;
  await eventually(async () => /^before$/m.test((await log()).log), 'the line is in the log');
  assert.equal((await log()).status, 'building');
  assert.doesNotMatch((await log()).log, /^after$/m);
  await eventually(() => /^remote: before/m.test(readFileSync(printed, 'utf8')), 'the pusher reads the line');

  // A build sees only its own directories.
  const [project] = globSync(join(cellar.data, 'builds/*/**/package.json'));
  writeFileSync(join(dirname(project!), 'go'), '');
  await readUntil(
    await follow({ 'last-event-id': received.at(-1)!.id! }),
    ({ finished_at }) => finished_at != null,
  );
  assert.equal((await pushed).code, 0);
  assert.match(readFileSync(printed, 'utf8'), /^remote: before\s[\s\S]*^remote: after\s/m);
  assert.deepEqual(
    received.map(({ id }) => Number(id)),
    received.map((_, n) => n + 1),
  );
  assert.ok(received.every((event) => event.event === (shown(event).lines ? 'log' : undefined)));
  const lines = received.flatMap((event) => shown(event).lines ?? []);
  assert.equal(lines.map((line) => `${line}\n`).join(''), (await log()).log);
});
