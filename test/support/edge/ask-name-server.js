// Loaded into a host with `--import`: makes its resolvers use the DNS server in `TEST_NAME_SERVER`.
import { Resolver } from 'node:dns/promises';

const server = process.env.TEST_NAME_SERVER;
for (const name of ['resolve4', 'resolve6', 'resolveCname', 'resolveTxt']) {
  const resolve = Resolver.prototype[name];
  Resolver.prototype[name] = function (...asked) {
    if (this.getServers()[0] !== server) this.setServers([server]);
    return resolve.apply(this, asked);
  };
}
