// Calls about Workers Sites. Wrangler sends their files as values of a KV namespace, before the Worker. In Cellar the files
// become assets of the release.
import { newAppCall, Page } from '../call.ts';
import { ownerOf, requireBody } from './assets.ts';
import { homeOfUpload } from './upload-home.ts';

/** Path of the namespace, with the name that Wrangler gives it. */
const NAMESPACE = '/accounts/:account/storage/kv/namespaces/__:script-workers_sites_assets';

export const siteCalls = [
  newAppCall({
    method: 'GET',
    path: `${NAMESPACE}/keys`,
    // With an empty list, Wrangler sends all files. It then also deletes no file that an earlier release may need.
    answer: async () => new Page([], { count: 0, cursor: '' }),
  }),
  newAppCall({
    method: 'PUT',
    path: `${NAMESPACE}/bulk`,
    // The host parses the body, because Wrangler sends five bodies of up to 98 MB at once.
    answer: async (context, _body, app) => {
      const home = await homeOfUpload(context, app);
      const query = { owner: ownerOf(context), app: app?.id, home };
      const given = { query, body: requireBody(context.request) };
      const { files } = await context.host.call('POST /uploads/sites', {}, given);
      return { successful_key_count: files, unsuccessful_keys: [] };
    },
  }),
];
