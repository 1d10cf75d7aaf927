// A line chart without axes.

/**
 * Null values are gaps. `label` describes the chart for screen readers, such as "1.2 k requests in 24 h". Leave it empty
 * beside a text that says the same.
 */
export function Sparkline({
  values,
  label,
  colour = 'accent',
  width = 96,
  height = 24,
}: {
  values: readonly (number | null)[];
  label: string;
  colour?: 'accent' | 'danger' | 'sleep' | 'muted';
  width?: number;
  height?: number;
}) {
  const most = Math.max(1e-9, ...values.map((value) => value ?? 0));
  const isFlat = values.every((value) => !value);
  const x = (i: number) => (values.length < 2 ? 0 : (i / (values.length - 1)) * width);
  const y = (value: number) => height - 1.5 - (value / most) * (height - 3);
  const runs: string[] = [];
  let run = '';
  for (const [i, value] of values.entries()) {
    if (value === null) {
      if (run) runs.push(run);
      run = '';
    } else run += `${run === '' ? 'M' : 'L'}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
  }
  if (run) runs.push(run);
  const stroke = isFlat ? 'var(--line)' : `var(--${colour})`;
  return (
    <svg
      class="sparkline"
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      role={label === '' ? 'presentation' : 'img'}
      aria-label={label === '' ? undefined : label}
      aria-hidden={label === ''}
    >
      {runs.map((path) => {
        const from = /^M([\d.]+)/.exec(path)![1]!;
        const to = /([\d.]+) [\d.]+$/.exec(path)![1]!;
        return (
          <g key={path}>
            {!isFlat && (
              <path d={`${path}L${to} ${height}L${from} ${height}Z`} fill={stroke} opacity="0.12" />
            )}
            <path
              d={path.includes('L') ? path : `${path}h0.01`}
              fill="none"
              stroke={stroke}
              stroke-width="1.5"
              stroke-linejoin="round"
              stroke-linecap="round"
            />
          </g>
        );
      })}
    </svg>
  );
}
