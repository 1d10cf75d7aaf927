import { type OAuthHelpers, OAuthProvider } from '@cloudflare/workers-oauth-provider';
import { McpServer } from '@modelcontextprotocol/server';
import { createMcpHandler, getMcpAuthContext } from 'agents/mcp/server';

function createServer() {
  const server = new McpServer({ name: 'Authenticated', version: '1.0.0' });
  server.registerTool('whoami', { description: 'Returns the user' }, async () => ({
    content: [{ type: 'text', text: String(getMcpAuthContext()?.props.userId) }],
  }));
  return server;
}

const handler = createMcpHandler(createServer);

const pages = {
  async fetch(request: Request, env: { OAUTH_PROVIDER: OAuthHelpers }) {
    const oauth = env.OAUTH_PROVIDER;
    if (new URL(request.url).pathname !== '/authorize') return new Response('Not found', { status: 404 });
    if (request.method === 'GET') {
      const authRequest = await oauth.parseAuthRequest(request);
      const { clientName } = await oauth.describeConsent(authRequest);
      const consent = await oauth.beginConsent(authRequest);
      return Response.json({ clientName, handle: consent.handle }, { headers: consent.headers });
    }
    const form = await request.formData();
    const approved = await oauth.approveConsent(request, String(form.get('handle')), { scope: ['mcp:read'] });
    const { redirectTo } = await oauth.completeAuthorization({
      request: approved.request,
      userId: 'ann',
      metadata: {},
      scope: approved.request.scope,
      props: { userId: 'ann' },
    });
    approved.headers.set('Location', redirectTo);
    return new Response(null, { status: 302, headers: approved.headers });
  },
};

export default {
  fetch(request: Request, env: object, ctx: ExecutionContext) {
    const { origin } = new URL(request.url);
    const provider = new OAuthProvider({
      authorizeEndpoint: '/authorize',
      tokenEndpoint: '/oauth/token',
      clientRegistrationEndpoint: '/oauth/register',
      apiRoute: '/mcp',
      apiHandler: { fetch: handler as never },
      defaultHandler: pages as never,
      scopesSupported: ['mcp:read'],
      resourceMetadata: { resource: `${origin}/mcp`, authorization_servers: [origin] },
    });
    return provider.fetch(request, env as never, ctx);
  },
};
