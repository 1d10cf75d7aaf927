// The host's side of the wake bench, in a process of its own: gateway, fleets and the host's database, as in a Cellar.
// Arguments: a directory with the release in `release/`, and how many apps run it. Their host names are `0`, `1`, ….
import { join } from 'node:path';
import { Gateway } from '../../runtime/edge/gateway.ts';
import { MemoryGauge } from '../../runtime/fleets/admission/memory.ts';
import { Slots } from '../../runtime/fleets/admission/slots.ts';
import { WakeFigures } from '../../runtime/fleets/admission/wake-figures.ts';
import { Fleet } from '../../runtime/fleets/life/fleet.ts';
import { lineSink } from '../../runtime/fleets/process/cell-output.ts';
import { workerdPath } from '../../runtime/fleets/process/start-cell.ts';
import { openHostStore } from '../../sqlite/host/index.ts';

/** Times of the steps of each app's last wake, in ms since 1970 with fractions. */
export interface Steps {
  /** The gateway has read the request and asked the fleet. */
  asked: number;
  /** The app's place in the queue was reached, and the host has stored that the app runs. */
  launched: number;
  /** The process listens, and the request is forwarded to it. */
  ready: number;
}
/** A message of the bench. `hibernate` is answered when every app has hibernated. */
export type Order = 'hibernate' | 'steps';
/** A message to the bench: the port once the gateway listens, and later the answer to each order. `steps`: one for each app. */
export type Answer = { port: number } | { hibernated: true } | { steps: Steps[] };

const WAKE_TIMEOUT_MS = 120_000;
const CONCURRENCY = 4;
const LOOK_MS = 2;

const [root, count] = process.argv.slice(2) as [string, string];
const now = () => performance.timeOrigin + performance.now();
const store = openHostStore(join(root, 'host.sqlite'));
const slots = new Slots(CONCURRENCY, WAKE_TIMEOUT_MS);
const memory = new MemoryGauge(0, 512);
const steps: Steps[] = [];
const fleets = Array.from({ length: Number(count) }, (_, index) => open(index));

function open(index: number): Fleet {
  const id = String(index);
  const own: Steps = { asked: 0, launched: 0, ready: 0 };
  steps.push(own);
  store.apps.want({
    id,
    slug: id,
    generation: 1,
    desired_state: 'running',
    hostnames: [],
    limits: { clientRpm: null, appRpm: null },
    env: {},
  });
  const fleet = new Fleet({
    appId: id,
    directories: { run: join(root, id), data: join(root, `${id}-data`) },
    workerd: workerdPath(),
    user: null,
    memoryMb: 512,
    idleMs: 0,
    lastRequestAt: null,
    owner: () => 'account',
    slots,
    memory,
    secrets: () => ({}),
    wakes: new WakeFigures(),
    output: () => lineSink(() => {}),
    say: () => {},
    onState: (state) => {
      if (state === 'running') own.ready = now();
    },
    onFailure: () => {},
    onAsleep: () => {},
    onRest: async (rest) => {
      store.activity.setRest(id, rest);
      if (rest === null) own.launched = now();
    },
  });
  const release = { deployId: 'release', directory: join(root, 'release') };
  fleet.restore('idle', release, { dueAt: null });
  return fleet;
}

const gateway = new Gateway({
  holdTimeoutMs: WAKE_TIMEOUT_MS,
  resolve: ({ host }) => {
    const index = Number(host);
    steps[index]!.asked = now();
    return { kind: 'proxy', backend: fleets[index]! };
  },
});

/** Ticks the fleets until every process has ended. */
async function hibernate(): Promise<void> {
  while (!fleets.every((fleet) => store.activity.all().get(fleet.site)?.resting ?? fleet.pid === null)) {
    for (const fleet of fleets) fleet.tick();
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

const answer = (message: Answer) => process.send!(message);
process.on('message', async (order: Order) => {
  if (order === 'steps') answer({ steps });
  else {
    await hibernate();
    answer({ hibernated: true });
  }
});
process.once('disconnect', async () => {
  await gateway.close(0);
  await Promise.all(fleets.map((fleet) => fleet.close()));
  store.close();
});
answer({ port: await gateway.listen(0, '127.0.0.1') });
