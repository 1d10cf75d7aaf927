// The whole flow of an MCP client: discovery, registration, consent, tokens, a refresh; and requests without a token.
import assert from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { app, sleep } from './support.mjs';

/** OAuth needs HTTPS, so requests have the header `x-forwarded-proto`, as if a proxy terminated TLS. */
const secure = app.replace('http:', 'https:');
const send = (url, init) => {
  const request = new Request(String(url).replace('https:', 'http:'), init);
  request.headers.set('x-forwarded-proto', 'https');
  return fetch(request);
};
const address = new URL(`${secure}/mcp`);
const refused = await send(address, { method: 'POST', body: '{}' });
assert.equal(refused.status, 401);
assert.match(refused.headers.get('www-authenticate'), /resource_metadata="https:\S+"/);
const metadata = await (await send(`${secure}/.well-known/oauth-authorization-server`)).json();
assert.deepEqual([metadata.issuer, metadata.registration_endpoint], [secure, `${secure}/oauth/register`]);

const stored = {};
let page;
const authProvider = {
  redirectUrl: 'http://localhost:9/callback',
  clientMetadata: {
    client_name: 'A client',
    redirect_uris: ['http://localhost:9/callback'],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    scope: 'mcp:read',
  },
  clientInformation: () => stored.client,
  saveClientInformation: (client) => {
    stored.client = client;
  },
  tokens: () => stored.tokens,
  saveTokens: (tokens) => {
    stored.tokens = tokens;
  },
  codeVerifier: () => stored.verifier,
  saveCodeVerifier: (verifier) => {
    stored.verifier = verifier;
  },
  redirectToAuthorization: (url) => {
    page = url;
  },
};
const connect = async () => {
  const transport = new StreamableHTTPClientTransport(address, { authProvider, fetch: send });
  const client = new Client({ name: 'client', version: '1.0.0' });
  const error = await client.connect(transport).catch((reason) => reason);
  return { client, transport, error };
};
const whoami = async ({ client }) =>
  (await client.callTool({ name: 'whoami', arguments: {} })).content[0].text;

const first = await connect();
assert.ok(first.error instanceof UnauthorizedError, String(first.error));
const consent = await send(page);
const { clientName, handle } = await consent.json();
assert.equal(clientName, 'A client');
const cookie = consent.headers
  .getSetCookie()
  .map((each) => each.split(';')[0])
  .join('; ');
const approved = await send(page, {
  method: 'POST',
  headers: { cookie, origin: secure },
  body: new URLSearchParams({ handle }),
  redirect: 'manual',
});
assert.equal(approved.status, 302, await approved.text());
const back = new URL(approved.headers.get('location'));
await first.transport.finishAuth(back.searchParams);
assert.equal(await whoami(await connect()), 'ann');
await sleep();
assert.equal(await whoami(await connect()), 'ann');
const { access_token } = stored.tokens;
stored.tokens = { ...stored.tokens, access_token: 'expired' };
assert.equal(await whoami(await connect()), 'ann');
assert.ok(![access_token, 'expired'].includes(stored.tokens.access_token), 'the token is refreshed');
process.exit();
