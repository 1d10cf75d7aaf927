// Loaded into a host with `--import`: makes its Caddy ask the certificate authority in `TEST_AUTHORITY` instead of a public one.
import { registerHooks } from 'node:module';

const ACME = "module: 'acme',";
const OWN = `${ACME} ca: process.env.TEST_AUTHORITY, trusted_roots_pem_files: [process.env.TEST_AUTHORITY_ROOT],`;

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!url.endsWith('/runtime/edge/caddy/config.ts')) return loaded;
    const source = String(loaded.source);
    if (!source.includes(ACME)) throw new Error(`${url} has no ${ACME}`);
    return { ...loaded, source: source.replace(ACME, OWN) };
  },
});
