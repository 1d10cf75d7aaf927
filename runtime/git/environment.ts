// What git is told besides its arguments: nothing of the host's own environment or configuration.

/** Files from this size on pass through git as streams, never whole in its memory, and count as binary. */
const BIG_FILE = '16m';

/** Settings of every git command. They keep an honest repository of 300 MB within some 64 MiB of memory. */
const ALWAYS = {
  // The host may run under another user than the one who made the data directory.
  'safe.directory': '*',
  'core.bigFileThreshold': BIG_FILE,
  'core.deltaBaseCacheLimit': '16m',
  'pack.windowMemory': '32m',
  'pack.deltaCacheSize': '32m',
  // Each thread has a stack and caches of its own.
  'pack.threads': '1',
  'index.threads': '1',
  'grep.threads': '1',
  // A background collection would leave the process group, and outlive the host.
  'gc.autoDetach': 'false',
  'maintenance.autoDetach': 'false',
};

/**
 * The environment of a git process.
 * @param config git settings for this process alone, such as `core.hooksPath`
 */
export function gitEnvironment(config: Record<string, string> = {}): Record<string, string> {
  const environment: Record<string, string> = {
    PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin',
    LC_ALL: 'C.UTF-8',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    // A pushed ref could have it read other objects than those that are named.
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
