// The bearer token of the API.
import type { Env } from './env.ts';
import { Problem } from './problem.ts';
import { sameSecret } from './secrets.ts';

/** Where the token may be when there is no `Authorization: Bearer`, in this order. */
const FALLBACK_HEADERS = ['x-runner-token', 'x-host-token', 'x-agent-token'] as const;

/** Said only where whoever asks sits at the machine, and true of every machine: it tells nothing of this one. */
const TOKEN_PLACE =
  ' If nobody has set it, it is in the file `token` of the data directory, `.cellar/token` by default.';

/** @throws {Problem} `unauthorized` */
export async function requireToken(request: Request, env: Env): Promise<void> {
  const token = presentedToken(request.headers);
  if (token === null) {
    const where = isLocal(env.BASE_DOMAIN) ? TOKEN_PLACE : '';
    throw new Problem('unauthorized', `This route needs \`Authorization: Bearer <RUNNER_TOKEN>\`.${where}`);
  }
  if (env.RUNNER_TOKEN === '' || !(await sameSecret(token, env.RUNNER_TOKEN))) {
    throw new Problem('unauthorized', 'The bearer token is wrong.');
  }
}

function isLocal(baseDomain: string): boolean {
  return baseDomain === 'localhost' || baseDomain.endsWith('.localhost');
}

function presentedToken(headers: Headers): string | null {
  const bearer = /^Bearer +(\S+) *$/i.exec(headers.get('authorization') ?? '');
  if (bearer) return bearer[1]!;
  for (const name of FALLBACK_HEADERS) {
    const value = headers.get(name);
    if (value) return value;
  }
  return null;
}
