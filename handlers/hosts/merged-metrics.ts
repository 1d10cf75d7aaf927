// Figures in the text format of Prometheus, of several hosts in one document.

/**
 * Merges the documents of several hosts. Each sample gets the label `host`; those of one metric stay together, as the format
 * demands.
 */
export function mergeMetrics(documents: { host: string; text: string }[]): string {
  const families = new Map<string, { head: string[]; samples: string[] }>();
  for (const { host, text } of documents) {
    let family = { head: [] as string[], samples: [] as string[] };
    let isNew = false;
    let name = '';
    for (const line of text.split('\n')) {
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
