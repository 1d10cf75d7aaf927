// Hosts of other versions: the same code, with another number of the protocol and of the version.

/** Returns settings that make a host another version. Only the numbers differ. */
export function versionSettings(version: string, protocol: number): Record<string, string> {
  const changes = {
    'runtime/hosts/membership.ts': ['HOSTS_PROTOCOL = 1;', `HOSTS_PROTOCOL = ${protocol};`],
    'runtime/variables.ts': ['VERSION: string =', `VERSION: string = '${version}' ||`],
  };
  const hook = `import { registerHooks } from 'node:module';
    const changes = Object.entries(${JSON.stringify(changes)});
    registerHooks({
      load(url, context, next) {
        const loaded = next(url, context);
        const change = changes.find(([path]) => url.endsWith('/' + path));
        if (change === undefined) return loaded;
        const [, [from, to]] = change;
        const source = String(loaded.source);
        if (!source.includes(from)) throw new Error('there is no ' + from);
        return { ...loaded, source: source.replace(from, to) };
      },
    });`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}` };
}
