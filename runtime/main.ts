// `npm start`: reads the settings, starts the host, and stops it on a signal. Two V8 flags in `package.json` shorten pauses
// of the gateway. `--max-semi-space-size` keeps the young generation small: under thousands of short connections a second, a
// collection takes 2 ms, not 10 ms or more. `--v8-pool-size` allows one helper thread for marking and compiling: on two
// cores, four helper threads delayed the gateway by up to 14 ms.
import { flushCompileCache } from 'node:module';
import { continueFromBucket } from './bucket/records/continue.ts';
import { ConfigError, isLocal, portTaken, readConfig, unknownSettings } from './config.ts';
import { layout } from './disk/data-directory.ts';
import { isDiskFull } from './disk/disk.ts';
import { rootCertificate } from './edge/caddy/config.ts';
import { Host, type Reload } from './host.ts';
import { warnOfPlainHttp } from './isolation/plain-http.ts';
import { log, logRarely, reason } from './log.ts';
import { tidyCompiled } from './threads/compile-cache.ts';

// A last resort: a failed write on a full disk that no code handles must not end the host, and the apps with it.
process.on('uncaughtException', (error: unknown) => {
  if (!isDiskFull(error)) {
    console.error(error);
    process.exit(1);
  }
  logRarely('error', 'a write failed because the disk is full, and nothing handled that', {
    error: reason(error),
  });
});

async function main(): Promise<void> {
  // Only the host's user may read the files that the host makes, unless the code that makes one says otherwise.
  process.umask(0o077);
  // Writing the compile cache takes some tenths of a second when much is new. Do it before clients wait for this thread.
  flushCompileCache();
  const config = readConfig(process.env);
  for (const name of unknownSettings(process.env))
    log('warn', 'no such setting', { name, see: 'docs/settings.md' });
  void warnOfPlainHttp(config);
  await continueFromBucket(config, layout(config.RUNNER_DATA_DIR));
  const host = new Host(config);

  // The handlers of signals are set before the start, so that a signal during the start drains too. A second signal does
  // nothing.
  let stopping = false;
  const stop = (signal: NodeJS.Signals) => {
    if (stopping) return;
    stopping = true;
    log('info', 'draining', { signal });
    host.close().then(
      () => {
        log('info', 'stopped');
        process.exit(0);
      },
      (error: unknown) => fail('stopping failed', error),
    );
  };
  // A closed terminal sends SIGHUP.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, stop);

  // `scripts/dev.ts` starts this process with an IPC channel, and asks over it to reload changed sources.
  process.on('message', ({ reload }: { reload: Reload }) => {
    const from = performance.now();
    host.reload(reload).then(
      () =>
        log('info', 'a part of Cellar was loaded again', {
          part: reload,
          ms: Math.round(performance.now() - from),
        }),
      (error: unknown) =>
        log('error', 'a part of Cellar could not be loaded again', { part: reload, error: reason(error) }),
    );
  });
  // The IPC channel alone must not keep this process running.
  process.channel?.unref();

  log('info', 'starting', { data: host.paths.root, pid: process.pid });
  const addresses = await host.start().catch(async (error: unknown) => {
    // The host was stopped during the start, which explains the failure.
    if (stopping) return null;
    stopping = true;
    await host.close().catch(() => {});
    const taken = portTaken(error, config);
    throw taken === undefined ? error : new Error(taken);
  });
  if (stopping || addresses === null) return;
  const { api, git, app, ui } = addresses;
  const example = new URL(git);
  example.username = 'git';
  example.password = 'KEY';
  const token = config.RUNNER_TOKEN ? '$RUNNER_TOKEN' : `$(cat ${host.paths.token})`;
  const authority =
    config.RUNNER_EDGE === 'caddy' && isLocal(config.RUNNER_BASE_DOMAIN)
      ? rootCertificate(host.paths.caddy)
      : null;
  log('info', 'ready', { api, git, app });
  void tidyCompiled().catch((error: unknown) =>
    log('warn', 'the compile cache could not be cleaned up', { error: reason(error) }),
  );
  process.stdout.write(
    [
      '',
      `  UI       ${ui}`,
      ...(host.welcome === null
        ? []
        : [
            `           ${host.welcome}`,
            '           This link makes you the admin. It works once; keep it to yourself.',
          ]),
      `  API      ${api}   (token: ${config.RUNNER_TOKEN ? 'RUNNER_TOKEN' : host.paths.token})`,
      `  apps     ${app.replace('{slug}', '<slug>')}`,
      `  git      ${git}/<slug>   (user git, password: ${host.paths.apiKey})`,
      '',
      '  In the folder of an app, committed to git:',
      ...(authority === null ? [] : [`    export GIT_SSL_CAINFO=${authority} CURL_CA_BUNDLE=${authority}`]),
      `    curl -X POST ${api}/v1/apps -H "authorization: Bearer ${token}" \\`,
      `      -H 'content-type: application/json' -d '{"slug": "hello"}'`,
      `    git push "${example.href.replace('KEY', `$(cat ${host.paths.apiKey})`)}hello" HEAD:main`,
      `    curl ${app.replace('{slug}', 'hello')}`,
      '',
      '',
    ].join('\n'),
  );
}

function fail(message: string, error: unknown): never {
  if (error instanceof ConfigError) {
    process.stderr.write(`cellar: settings that cannot be used:\n${error.message.replace(/^/gm, '  ')}\n`);
  } else {
    log('error', message, { error: reason(error) });
  }
  process.exit(1);
}

main().catch((error: unknown) => fail('could not start', error));
