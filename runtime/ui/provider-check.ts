// Checks the OpenID provider for sign-in when the host starts. So the log shows a wrong setting before anybody signs in.
import { log, reason } from '../log.ts';

const DEADLINE_MS = 10_000;
const NEEDED = ['issuer', 'authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const;
const WELL_KNOWN = '/.well-known/openid-configuration';

/** Logs a problem that makes sign-in by the provider fail. Never rejects. @param url of the provider's discovery document */
export async function checkProvider(url: string): Promise<void> {
  const problem = await problemOf(url).catch(reason);
  if (problem !== null)
    log(
      'warn',
      'people cannot sign in by the provider of RUNNER_OIDC_URL; docs/control-ui.md says how it is set',
      {
        url,
        error: problem,
      },
    );
}

/** Returns what is wrong with a discovery document; null when it can be used. */
async function problemOf(url: string): Promise<string | null> {
  const response = await fetch(url, { signal: AbortSignal.timeout(DEADLINE_MS) });
  if (!response.ok) {
    await response.body?.cancel();
    return `it answers ${response.status}`;
  }
  const document = (await response.json()) as Partial<Record<string, unknown>> | null;
  const missing = NEEDED.filter((name) => typeof document?.[name] !== 'string');
  if (missing.length > 0) return `its discovery document has no ${missing.join(', ')}`;
  const issuer = String(document!.issuer).replace(/\/$/, '');
  const asked = url.slice(0, -WELL_KNOWN.length);
  return issuer === asked ? null : `its issuer is ${issuer}, not ${asked}`;
}
