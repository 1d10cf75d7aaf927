// The time of `wrangler deploy` of a one-file Worker to Cellar, until the app serves. Compared with the same deploy to
// a server that answers at once and does nothing. The rounds of one run alternate.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { Project } from '../test/support/wrangler/wrangler.ts';
import { effort } from './support/bench-scale.ts';
import { median } from './support/figures.ts';

const ROUNDS = effort(15, 1);
const TARGET = 1.3;
const VERSION = '0d101168-2a36-88ed-8514-380000000000';

/** Prints both medians, and their ratio. */
export async function run(): Promise<void> {
  await using cellar = await new Cellar().start();
  const nothing = createServer(answerAtOnce).listen(0, '127.0.0.1');
  await once(nothing, 'listening');
  const { port } = nothing.address() as AddressInfo;
  try {
    const project = new Project(cellar, {
      'wrangler.toml': 'name = "uploaded"\nmain = "index.js"\ncompatibility_date = "2026-10-01"\n',
      'index.js': worker('first'),
    });
    await deploy(project, {});
    const times = { cellar: [] as number[], nothing: [] as number[] };
    for (let round = 0; round < ROUNDS; round++) {
      project.write({ 'index.js': worker(`round ${round}`) });
      times.nothing.push(
        await deploy(project, {
          CLOUDFLARE_API_BASE_URL: `http://127.0.0.1:${port}/client/v4`,
          CLOUDFLARE_ACCOUNT_ID: 'nobody',
        }),
      );
      times.cellar.push(await deploy(project, {}));
      const { text } = await cellar.get('uploaded');
      if (text !== `round ${round}`) throw new Error(`the app answers ${text}`);
    }
    const [ours, theirs] = [median(times.cellar), median(times.nothing)];
    console.log(`wrangler deploy, median of ${ROUNDS}: ${ours.toFixed(0)} ms against Cellar`);
    console.log(`  ${theirs.toFixed(0)} ms against a server that answers at once`);
    console.log(`  ${(ours / theirs).toFixed(2)} x (target: at most ${TARGET})`);
  } finally {
    nothing.close();
    nothing.closeAllConnections();
  }
}

function worker(text: string): string {
  return `export default { fetch: () => new Response('${text}') };\n`;
}

async function deploy(project: Project, environment: Record<string, string>): Promise<number> {
  const begun = performance.now();
  const { code, stdout, stderr } = await project.run(['deploy'], { environment });
  if (code !== 0) throw new Error(`wrangler deploy ended with ${code}:\n${stdout}${stderr}`);
  return performance.now() - begun;
}

/** Returns the answers that Wrangler needs to deploy an existing Worker. */
function resultOf(path: string): unknown {
  if (path.includes('/workers/services/'))
    return { default_environment: { environment: 'production', script: { tag: 'one', tags: [] } } };
  if (path.endsWith('/deployments')) return { deployments: [] };
  if (path.endsWith('/secrets')) return [];
  if (path.endsWith('/versions'))
    return { id: VERSION, startup_time_ms: 1, resources: { script: { etag: 'one' } } };
  if (path.endsWith('/memberships'))
    return [{ id: 'one', account: { id: 'nobody', name: 'nobody' }, roles: [] }];
  const subdomain = { enabled: true, previews_enabled: false, url: 'http://uploaded.localhost' };
  return { ...subdomain, subdomain };
}

function answerAtOnce(request: IncomingMessage, response: ServerResponse): void {
  request.resume().on('end', () => {
    const result = resultOf(request.url!.split('?')[0]!);
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ success: true, errors: [], messages: [], result }));
  });
}
