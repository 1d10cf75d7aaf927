// Prometheus' text format, version 0.0.4.

export interface Sample {
  /** Suffix of the family's name, in a histogram. */
  suffix?: string;
  /** Formatted by `labelsText`; empty for none. */
  labels: string;
  value: number;
}

export interface Family {
  name: string;
  type: 'counter' | 'gauge' | 'histogram';
  help: string;
  samples: Iterable<Sample>;
}

/** Formats families; those without a sample are left out. */
export function prometheusText(families: Family[]): string {
  let text = '';
  for (const { name, type, help, samples } of families) {
    const head = `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
    let lines = '';
    for (const { suffix = '', labels, value } of samples)
      lines += `${name}${suffix}${labels === '' ? '' : `{${labels}}`} ${value}\n`;
    if (lines !== '') text += head + lines;
  }
  return text;
}

/** Formats labels, such as `app="shop",status="2xx"`. */
export function labelsText(labels: Record<string, string>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}="${escaped(value)}"`)
    .join(',');
}

function escaped(value: string): string {
  return value.replace(/[\\"\n]/g, (found) => (found === '\n' ? '\\n' : `\\${found}`));
}
