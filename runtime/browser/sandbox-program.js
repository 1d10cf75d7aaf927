// Runs in the sandbox of one browser session: starts Chromium, and connects it with the browser service outside. The network
// of the sandbox has only loopback, so all connections use the session's socket. Their first byte names their purpose.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import net from 'node:net';
import { createInterface } from 'node:readline';

const { program, socket, memoryBytes } = JSON.parse(process.argv[2]);
/** Connections that Chromium makes to the internet. */
const OUTWARD = 'o';
/** Connections of the service to Chromium's DevTools. */
const DEVTOOLS = 'd';
const MEMORY_POLL_MS = 250;

const proxy = net.createServer({ allowHalfOpen: true }, (inner) => join(inner, connectOut(OUTWARD)));
proxy.listen(0, '127.0.0.1');
await once(proxy, 'listening');

// Chromium's own sandbox needs user namespaces with a user mapping (uid_map), which containers often forbid. bubblewrap's
// `/proc` is read-only, so that no mapping can be written there.
const namespaces = ['--user', '--map-root-user', '--pid', '--net', '--fork'];
const canSandbox = spawnSync('/usr/bin/unshare', [...namespaces, 'true']).status === 0;
const chromium = spawn(
  program,
  [
    '--headless=new',
    '--remote-debugging-port=0',
    `--proxy-server=socks5://127.0.0.1:${proxy.address().port}`,
    // Requests to loopback use the proxy, too. It refuses them, unless `RUNNER_EGRESS_ALLOW` names the address.
    '--proxy-bypass-list=<-loopback>',
    '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
    '--user-data-dir=/tmp/profile',
    '--disable-background-networking',
    '--disable-breakpad',
    '--disable-component-update',
    '--disable-default-apps',
    '--disable-extensions',
    '--disable-gpu',
    '--disable-sync',
    '--hide-scrollbars',
    '--mute-audio',
    '--no-default-browser-check',
    '--no-first-run',
    '--password-store=basic',
    ...(canSandbox ? [] : ['--no-sandbox']),
    'about:blank',
  ],
  { stdio: ['ignore', 'ignore', 'pipe'] },
);
chromium.on('error', (error) => fail(`Chromium cannot start: ${error.message}`));
chromium.on('exit', (code, signal) => {
  if (code === 0) process.stderr.write('the browser was closed\n', () => process.exit());
  else fail(`Chromium ended (${signal ?? `exit code ${code}`})`);
});
for await (const line of createInterface({ input: chromium.stderr })) {
  const port = /^DevTools listening on ws:\/\/127\.0\.0\.1:(\d+)\//.exec(line)?.[1];
  if (port === undefined) continue;
  waitForDevtools(Number(port));
  break;
}
// Drains the stream, because a full pipe would block Chromium.
chromium.stderr.on('error', () => {}).resume();
setInterval(checkMemory, MEMORY_POLL_MS);

/** Offers the service one connection to DevTools, and the next one once the service uses it. */
function waitForDevtools(port) {
  const outer = connectOut(DEVTOOLS);
  outer.once('readable', () => {
    const inner = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    join(inner, outer);
    waitForDevtools(port);
  });
}

function connectOut(way) {
  const outer = net.connect({ path: socket, allowHalfOpen: true });
  outer.on('error', () => outer.destroy());
  outer.write(way);
  return outer;
}

function join(one, other) {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ]) {
    from.on('error', () => to.destroy());
    from.on('close', () => to.destroy());
    from.pipe(to);
  }
}

/** Ends the session when all processes of the sandbox together use too much memory. Mapped files do not count. */
function checkMemory() {
  let bytes = 0;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const status = readFileSync(`/proc/${pid}/status`, 'latin1');
      for (const [, kilobytes] of status.matchAll(/^Rss(?:Anon|Shmem):\s+(\d+) kB$/gm))
        bytes += kilobytes * 1024;
    } catch {
      // The process has ended.
    }
  }
  if (bytes > memoryBytes) fail(`the browser used more than ${memoryBytes / 2 ** 20} MiB of memory`);
}

/** Ends the session: the sandbox's first process waits for this one, and all others end with the first process. */
function fail(reason) {
  process.stderr.write(`${reason}\n`, () => process.exit(1));
}
