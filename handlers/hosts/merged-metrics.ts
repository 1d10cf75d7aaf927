// Merges the metrics of several hosts, in the text format of Prometheus, into one document.

const UP = ['# HELP cellar_host_up Whether the host answers.', '# TYPE cellar_host_up gauge'];

/** A host's metrics. `text` is null when the host does not answer. */
export interface HostMetrics {
  id: string;
  name: string;
  text: string | null;
}

/**
 * Merges the metrics of several hosts, and adds `cellar_host_up`. Each sample gets the label `host`: the name of the host,
 * or its id when another host has the same name. Samples of one metric stay together, as the format requires.
 */
export function mergeMetrics(hosts: readonly HostMetrics[]): string {
  const families = new Map<string, { head: string[]; samples: string[] }>();
  for (const { id, name: hostName, text } of hosts) {
    const isUnique = hosts.every((other) => other.id === id || other.name !== hostName);
    const host = isUnique ? hostName : id;
    let family = { head: [] as string[], samples: [] as string[] };
    let isNew = false;
    let name = '';
    for (const line of [...UP, `cellar_host_up ${text === null ? 0 : 1}`, ...(text ?? '').split('\n')]) {
      const comment = /^# (?:HELP|TYPE) (\S+)/.exec(line)?.[1];
      if (comment !== undefined && comment !== name) {
        name = comment;
        isNew = !families.has(name);
        family = families.get(name) ?? { head: [], samples: [] };
        families.set(name, family);
      }
      if (comment !== undefined) {
        if (isNew) family.head.push(line);
      } else if (line !== '') family.samples.push(withHost(line, host));
    }
  }
  return [...families.values()].map(({ head, samples }) => `${[...head, ...samples].join('\n')}\n`).join('');
}

function withHost(sample: string, host: string): string {
  const label = `host="${host.replace(/[\\"]/g, '\\$&')}"`;
  return sample.replace(/^([\w:]+)(\{)?/, (_, name: string, open?: string) =>
    open === undefined ? `${name}{${label}}` : `${name}{${label},`,
  );
}
