// The bucket service: a process that keeps the objects of all apps, each app's apart. The host says which apps it serves.
import { join } from 'node:path';
import { serveApps, serviceOptions } from '../../app-services/app-service-program.ts';
import { AppServer } from './app-server.ts';
import { OpenStoreCache } from './bucket/open-store-cache.ts';
import { Room } from './bucket/quota.ts';
import type { ServiceOptions } from './messages.ts';

const options = serviceOptions<ServiceOptions & { directory: string }>();
// The app whose buckets these are passes through their directory to its socket, and reads no file in it.
process.umask(0o077);

serveApps('bucket service', async (app, door) => {
  const directory = join(options.directory, app);
  const stores = new OpenStoreCache(directory);
  const { close } = await AppServer.listen(door, stores, new Room(directory, options), options);
  return { close, hold: (isHeld) => stores.hold(isHeld) };
});
