// What git is told besides its arguments: nothing of the host's own environment or configuration.

/** Files from this size on pass through git as streams, never whole in its memory, and count as binary. */
export const BIG_FILE = '16m';

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
    // The host may run under another user than the one who made the data directory.
    GIT_CONFIG_COUNT: String(Object.keys(config).length + 1),
    GIT_CONFIG_KEY_0: 'safe.directory',
    GIT_CONFIG_VALUE_0: '*',
  };
  Object.entries(config).forEach(([key, value], i) => {
    environment[`GIT_CONFIG_KEY_${i + 1}`] = key;
    environment[`GIT_CONFIG_VALUE_${i + 1}`] = value;
  });
  return environment;
}
