// The bucket service: a process that stores the objects of all apps separately. The host says which apps it serves.
import { join } from 'node:path';
import { serveApps, serviceOptions } from '../../app-services/app-service-program.ts';
import { Quota, type QuotaRefusals } from '../../disk/quota.ts';
import { AppServer } from './app-server.ts';
import { OpenStoreCache } from './bucket/open-store-cache.ts';
import { tooLarge, unavailable } from './errors.ts';
import type { AboutApp, ServiceOptions } from './messages.ts';
import { RemoteStores } from './remote/remote-stores.ts';

const REFUSALS: QuotaRefusals = {
  tooMuch: (maxMb) =>
    tooLarge(`The objects of this app may have at most ${maxMb} MiB in all (RUNNER_APP_MAX_MB).`),
  diskFull: (floorMb) =>
    unavailable(`The disk of this machine is almost full (RUNNER_DISK_FLOOR_MB is ${floorMb}).`),
};

const options = serviceOptions<ServiceOptions & { directory: string }>();
// An app's user may traverse the directory of the app's buckets to the socket, but must not read its files.
process.umask(0o077);

serveApps('bucket service', async (app, listener, _, about) => {
  const directory = join(options.directory, app);
  const place = about as AboutApp;
  const stores = place === null ? new OpenStoreCache(directory) : new RemoteStores(directory, place);
  // Objects in the bucket need no space on the disk.
  const limits = place === null ? options : { ...options, floorMb: 0 };
  const { close } = await AppServer.listen(listener, stores, new Quota(directory, limits, REFUSALS), options);
  return { close, hold: (isHeld) => stores.hold(isHeld) };
});
