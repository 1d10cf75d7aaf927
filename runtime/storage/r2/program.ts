// The bucket service: a process that stores the objects of all apps separately. The host says which apps it serves.
import { join } from 'node:path';
import { serveApps, serviceOptions } from '../../app-services/app-service-program.ts';
import { AppServer } from './app-server.ts';
import { OpenStoreCache } from './bucket/open-store-cache.ts';
import { Quota } from './bucket/quota.ts';
import type { ServiceOptions } from './messages.ts';

const options = serviceOptions<ServiceOptions & { directory: string }>();
// The app's user may traverse its buckets' directory to the socket, but read no file in it.
process.umask(0o077);

serveApps('bucket service', async (app, listener) => {
  const directory = join(options.directory, app);
  const stores = new OpenStoreCache(directory);
  const { close } = await AppServer.listen(listener, stores, new Quota(directory, options), options);
  return { close, hold: (isHeld) => stores.hold(isHeld) };
});
