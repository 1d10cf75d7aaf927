// Brings the host into the state in D1: at the start of the host or of the control plane, and every minute. With several hosts,
// each has its own control plane process, which reconciles the apps whose home is that host.
import { doubtfulDeploys, repairDeployRows } from '../../sqlite/control/apps/deploys.ts';
import { acceptOlder, type ControlState, readControlState } from '../../sqlite/control/apps/reconcile.ts';
import { observeApps } from '../../sqlite/control/apps/transitions.ts';
import { adoptLocalApps } from '../../sqlite/control/hosts.ts';
import type { RequestContext } from '../context.ts';
import type { HostInventory } from '../contract/host/host-routes.ts';
import { Problem } from '../problem.ts';

/** Apps that are reconciled concurrently. */
const CONCURRENCY = 4;
/** Maximum deploys that one run requests from the host; the next run requests the rest. */
const DEPLOYS_LIMIT = 200;
/** After this time since the start of a run, in ms, the run starts no further task; the next run continues. */
const BUDGET_MS = 40_000;

/**
 * Result of a run: counts of apps. `pushed`: their state was sent to the host. `trashed`: they were deleted on the host.
 * `refused`: a task for them failed, such as a hand-over; the next run tries again.
 */
export interface Reconciled {
  pushed: number;
  trashed: number;
  refused: number;
}

/**
 * Compares D1 and the host by (app, generation), and fixes the differences. Reads the host before D1. So an app that the host
 * has and D1 lacks was deleted, not created just now, and this deletes the app from the host. If D1 has no apps, or is older
 * than the host, keeps such apps. Apps that were kept because D1 was older are never deleted later either.
 */
export async function reconcile(context: RequestContext): Promise<Reconciled> {
  const inventory = await context.host.call('GET /apps', {});
  const self = context.env.HOST_ID || null;
  const state = await stateFor(context, inventory, self);
  const known = new Set(state.apps.map(({ id }) => id));
  const unknown = inventory.items.filter(({ id }) => !known.has(id)).map(({ id }) => id);
  const older = inventory.highest_generation > state.revision;
  if (older) {
    console.error(
      `the database of the control plane is older than the apps of the host (revision ${state.revision}, host ${inventory.highest_generation}): no app is deleted from the host`,
    );
    await acceptOlder(context.db, inventory.highest_generation, unknown);
  }
  const elsewhere = self === null ? new Map<string, Home>() : homesElsewhere(state, self);
  const own = inventory.items.filter(({ id }) => !elsewhere.has(id));
  await observeApps(context.db, own, inventory.as_of);
  await mendDeploys(context);
  const result = { pushed: 0, trashed: 0, refused: 0 };
  const work = [
    ...pushes(
      context,
      // Apps without a home wait for the host that ran them before there were several hosts.
      { ...state, apps: self === null ? state.apps : state.apps.filter(({ home }) => home === self) },
      inventory,
      result,
    ),
    ...(self === null ? [] : handOvers(context, self, elsewhere, inventory)),
    ...(older || known.size === 0 ? [] : removals(context, state, unknown, result)),
  ];
  await runAll(work, result);
  return result;
}

/** Reads the state in D1. Makes this host the home of local apps whose data is on its disk, and whose home was removed. */
async function stateFor(
  { db }: RequestContext,
  { items }: HostInventory,
  self: string | null,
): Promise<ControlState> {
  const state = await readControlState(db);
  if (self === null) return state;
  const elsewhere = homesElsewhere(state, self);
  const local = items.filter(({ id, storage }) => storage === 'local' && elsewhere.has(id));
  if (local.length === 0) return state;
  const hasAdopted = await adoptLocalApps(
    db,
    local.map(({ id }) => id),
    self,
  );
  return hasAdopted ? readControlState(db) : state;
}

/** Asks the host for deploys whose rows in D1 may be out of date, and corrects these rows. */
async function mendDeploys({ db, env, host, at }: RequestContext): Promise<void> {
  const doubtful = await doubtfulDeploys(db, env.HOST_ID || null, DEPLOYS_LIMIT);
  if (doubtful.length === 0) return;
  const { as_of, items } = await host.call('POST /deploys', {}, { body: doubtful });
  const known = new Set(items.map(({ id }) => id));
  const lost = doubtful.filter(({ id }) => !known.has(id)).map(({ id }) => id);
  await repairDeployRows(db, items, lost, as_of, at, env.HOST_ID || null);
}

type Work = () => Promise<void>;

function pushes(
  context: RequestContext,
  state: ControlState,
  { items }: HostInventory,
  result: Reconciled,
): Work[] {
  const seen = new Map(items.map(({ id, generation }) => [id, generation]));
  return state.apps
    .filter(({ id, generation, deleted }) => deleted || seen.get(id) !== generation)
    .map(({ id, generation, home, deleted }) => async () => {
      const object = context.app(id);
      const outcome = await (deleted
        ? object.confirmDeletion(id, { generation, home })
        : object.converge(id));
      if (!outcome.ok) throw new Problem(outcome.code, `app ${id}: ${outcome.detail}`);
      result[deleted ? 'trashed' : 'pushed']++;
    });
}

/** Another host that is the home of an app, and the app's generation in D1. */
interface Home {
  to: string;
  generation: number;
}

/** Returns the apps whose home is another host. */
function homesElsewhere({ apps }: ControlState, self: string): Map<string, Home> {
  return new Map(
    apps.flatMap(({ id, home, generation }) =>
      home === null || home === self ? [] : [[id, { to: home, generation }]],
    ),
  );
}

/** Returns tasks that end the apps which this host still has, although another host is their home. */
function handOvers(
  context: RequestContext,
  self: string,
  elsewhere: Map<string, Home>,
  { items }: HostInventory,
): Work[] {
  return items.flatMap(({ id }) => {
    const body = elsewhere.get(id);
    if (body === undefined) return [];
    return async () => {
      await context.host.call('POST /apps/:id/hand-over', { id }, { query: { home: self }, body });
    };
  });
}

/**
 * Returns tasks that delete the apps which the host has and D1 lacks. Their creation failed, or D1 had removed the host before
 * the host confirmed a deletion.
 */
function removals(
  context: RequestContext,
  state: ControlState,
  unknown: string[],
  result: Reconciled,
): Work[] {
  return unknown
    .filter((id) => !state.spared.has(id))
    .map((id) => async () => {
      await context.host.call('DELETE /apps/:id', { id }, { query: { generation: state.revision } });
      result.trashed++;
    });
}

async function runAll(work: Work[], result: Reconciled): Promise<void> {
  const end = Date.now() + BUDGET_MS;
  const next = async () => {
    for (let task = work.shift(); task && Date.now() < end; task = work.shift()) {
      await task().catch((error: unknown) => {
        result.refused++;
        console.error(
          `an app or deploy on the host still differs from the control plane's database; Cellar tries again in a minute: ${(error as Error).message}`,
        );
      });
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, next));
}
