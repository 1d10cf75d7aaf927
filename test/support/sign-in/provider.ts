// A real provider of OpenID Connect. Without showing a page, it signs in the person that `next` names.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Provider } from 'oidc-provider';
import { fetch } from 'undici';
import type { Visitor } from '../e2e/visitor.ts';

export const CLIENT = { id: 'cellar', secret: 'a secret of the client, with & and %' };

/** What the provider knows of a person. */
export interface Claims {
  email: string;
  email_verified: boolean;
  name?: string;
  groups?: string[];
}

export class TestProvider {
  readonly issuer: string;
  /** People by subject. */
  readonly people = new Map<string, Claims>();
  /** The subject that signs in next. */
  next = '';
  #provider: Provider | null = null;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.issuer = `http://localhost:${(server.address() as AddressInfo).port}`;
    server.on('request', async (request, response) => {
      const provider = this.#provider!;
      if (!request.url!.startsWith('/interaction/')) return provider.callback()(request, response);
      const result = { login: { accountId: this.next } };
      await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
    });
  }

  static async start(): Promise<TestProvider> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new TestProvider(server);
  }

  /** Starts to serve OpenID Connect for a client at this origin. */
  serve(origin: string): void {
    this.#provider = new Provider(this.issuer, {
      clients: [
        {
          client_id: CLIENT.id,
          client_secret: CLIENT.secret,
          redirect_uris: [`${origin}/api/auth/callback/oidc`],
        },
      ],
      cookies: { keys: ['a key of the tests'] },
      claims: { email: ['email', 'email_verified'], profile: ['name'], groups: ['groups'] },
      features: { devInteractions: { enabled: false } },
      interactions: { url: (_, { uid }) => `/interaction/${uid}` },
      findAccount: (_, sub) => ({
        accountId: sub,
        claims: () => ({ sub, ...this.people.get(sub)! }),
      }),
      loadExistingGrant: async ({ oidc }) => {
        const grant = new oidc.provider.Grant({
          clientId: oidc.client!.clientId,
          accountId: oidc.session!.accountId!,
        });
        grant.addOIDCScope('openid email profile groups');
        await grant.save();
        return grant;
      },
    });
  }

  /** Signs a person in at the provider. @returns the address that it sends the browser to */
  async signIn(subject: string, url: string): Promise<string> {
    this.next = subject;
    const cookies = new Map<string, string>();
    let at = url;
    while (at.startsWith(this.issuer)) {
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const response = await fetch(at, {
        redirect: 'manual',
        headers: { cookie },
        signal: AbortSignal.timeout(30_000),
      });
      for (const line of response.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!;
        cookies.set(name!, value!);
      }
      const location = response.headers.get('location');
      if (location === null)
        throw new Error(`the provider answered ${response.status}: ${await response.text()}`);
      at = new URL(location, at).href;
    }
    return at;
  }

  async close(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }
}

/** Comes back from the provider. @returns the address that the browser goes to next */
export function comeBack(visitor: Visitor, url: string): Promise<string> {
  const { pathname, search } = new URL(url);
  return visitor.comeFromElsewhere(pathname + search);
}

/** Signs in by the provider, as the sign-in page does. @returns the address that the browser goes to at last */
export async function signInBy(provider: TestProvider, subject: string, visitor: Visitor): Promise<string> {
  const { status, text, body } = await visitor.ask('POST', '/oidc', {});
  if (status !== 200) throw new Error(`answered ${status}: ${text}`);
  return comeBack(visitor, await provider.signIn(subject, body.url));
}
