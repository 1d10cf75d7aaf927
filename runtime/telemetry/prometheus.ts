// Prometheus' text format, version 0.0.4.

export interface Family {
  name: string;
  type: 'counter' | 'gauge' | 'histogram';
  help: string;
  /** `suffix`: what comes behind the family's name, in a histogram. */
  samples: { suffix?: string; labels: Record<string, string>; value: number }[];
}

/** The text of families; those without a sample are left out. */
export function prometheusText(families: Family[]): string {
  return families
    .filter(({ samples }) => samples.length > 0)
    .map(({ name, type, help, samples }) => {
      const lines = samples.map(
        ({ suffix = '', labels, value }) => `${name}${suffix}${labelsText(labels)} ${value}\n`,
      );
      return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`;
    })
    .join('');
}

function labelsText(labels: Record<string, string>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escaped(value: string): string {
  return value.replace(/[\\"\n]/g, (found) => (found === '\n' ? '\\n' : `\\${found}`));
}
