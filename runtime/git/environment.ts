// git's environment and settings. Of the host's own environment, git gets only `PATH`; it reads no configuration of the
// machine.

/** git streams files from this size on, never loads them whole, and treats them as binary. */
const BIG_FILE = '16m';

/** Settings of every git command. With them, a normal repository of 300 MB needs some 64 MiB of memory. */
const ALWAYS = {
  // The host's user may differ from the data directory's owner.
  'safe.directory': '*',
  'core.bigFileThreshold': BIG_FILE,
  'core.deltaBaseCacheLimit': '16m',
  'pack.windowMemory': '32m',
  'pack.deltaCacheSize': '32m',
  // One thread: each further one would need memory for its own stack and caches.
  'pack.threads': '1',
  'index.threads': '1',
  'grep.threads': '1',
  // By default git syncs neither loose objects nor refs: a power cut would lose a push that was acknowledged.
  'core.fsync': 'all',
  'core.fsyncMethod': 'batch',
  // A background collection would leave the process group and outlive the host.
  'gc.autoDetach': 'false',
  'maintenance.autoDetach': 'false',
};

/**
 * Returns the environment of a git process.
 * @param config git settings for this process alone, such as `core.hooksPath`
 */
export function gitEnvironment(config: Record<string, string> = {}): Record<string, string> {
  const environment: Record<string, string> = {
    PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin',
    LC_ALL: 'C.UTF-8',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    // A pushed replace ref could substitute other objects.
    GIT_NO_REPLACE_OBJECTS: '1',
  };
  const settings = Object.entries({ ...ALWAYS, ...config });
  environment.GIT_CONFIG_COUNT = String(settings.length);
  settings.forEach(([key, value], i) => {
    environment[`GIT_CONFIG_KEY_${i}`] = key;
    environment[`GIT_CONFIG_VALUE_${i}`] = value;
  });
  return environment;
}
