// Starts Pebble, an ACME certificate authority for tests. To check a domain, it asks the test's DNS server, and connects to
// the test's ports instead of 80 and 443.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Agent, fetch } from 'undici';
import { dieWithParent } from '../../../runtime/isolation/users.ts';
import { ownPort } from '../ports.ts';
import { eventually } from '../processes.ts';
import { NameServer } from './name-server.ts';

export interface Pebble extends AsyncDisposable {
  /** URL of the ACME directory. */
  directory: string;
  /** File with the certificate of Pebble's own HTTPS server. */
  root: string;
  /** DNS records that Pebble finds, by name. */
  names: NameServer['names'];
  /** Returns everything that Pebble has logged. */
  log: () => string;
  /** Returns the root certificate that Pebble issues certificates with, as PEM. */
  issuerRoot: () => Promise<string>;
}

/**
 * Starts Pebble.
 * @param directory for Pebble's configuration, certificate and key
 * @param ports where Pebble connects to check a domain: by HTTPS (`tlsPort`) and by plain HTTP (`httpPort`)
 */
export async function startPebble(
  directory: string,
  { tlsPort, httpPort }: { tlsPort: number; httpPort: number },
): Promise<Pebble> {
  const nameServer = await new NameServer().listen();
  const [port, managementPort] = [ownPort(), ownPort()];
  const [root, key] = [join(directory, 'pebble.crt'), join(directory, 'pebble.key')];
  const subject = ['-subj', '/CN=pebble', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const made = [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-keyout',
    key,
    '-out',
    root,
  ];
  execFileSync('openssl', ['req', '-x509', '-days', '2', ...subject, ...made], { stdio: 'pipe' });
  const config = join(directory, 'pebble.json');
  const pebble = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${managementPort}`,
    ...{ certificate: root, privateKey: key, httpPort, tlsPort },
  };
  writeFileSync(config, JSON.stringify({ pebble }));
  const command = ['pebble', '-config', config, '-dnsserver', nameServer.address];
  const [program, ...words] = [...dieWithParent(), ...command];
  const child = spawn(program!, words, {
    env: { PATH: process.env.PATH, PEBBLE_VA_NOSLEEP: '1', PEBBLE_WFE_NONCEREJECT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => {
      log += text;
    });
  const agent = new Agent({ connect: { ca: readFileSync(root) } });
  const read = async (url: string) => {
    const answer = await fetch(url, { dispatcher: agent, signal: AbortSignal.timeout(5_000) });
    return answer.text();
  };
  const url = `https://127.0.0.1:${port}/dir`;
  await eventually(async () => {
    if (child.exitCode !== null) throw new Error(`pebble ended: ${log}`);
    return (await read(url).catch(() => '')).includes('newOrder');
  }, 'pebble answers');
  return {
    ...{ directory: url, root, names: nameServer.names, log: () => log },
    issuerRoot: () => read(`https://127.0.0.1:${managementPort}/roots/0`),
    [Symbol.asyncDispose]: async () => {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
      await agent.close();
      nameServer.close();
    },
  };
}
