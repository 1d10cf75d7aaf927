// What the gateway sends to an app's process.
import { readHead } from '../../runtime/edge/http/head/head.ts';
import { type Caller, forwardedHeaders } from '../../runtime/edge/http/head/headers.ts';
import type { Asked } from './load.ts';

const CALLER: Caller = {
  peer: '127.0.0.1',
  trusted: false,
  isOwnProxy: false,
  isSampled: false,
  locate: () => '',
  client: () => '127.0.0.1',
  isByTrustedProxy: () => false,
};
/** Returns a request as the gateway sends it to an app's process for a request of wrk. */
export function gatewayRequest(): Asked {
  const text = Buffer.from('GET / HTTP/1.1\r\nHost: shop.localhost\r\n\r\n');
  const head = readHead(text, text.length);
  if ('refusal' in head) throw new Error(head.refusal.detail);
  const lines = forwardedHeaders(head, CALLER).lines.toString('latin1').trimEnd().split('\r\n');
  const headers = Object.fromEntries(lines.map((line) => line.split(/: (.*)/, 2) as [string, string]));
  return { path: '/', headers };
}
