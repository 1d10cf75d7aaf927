// A small bar.

/** A bar that shows how much of a limit is used. Put the figures beside it: screen readers ignore the bar. */
export function Meter({ used, limit }: { used: number; limit: number }) {
  return (
    <meter
      min={0}
      max={limit}
      high={limit * 0.9}
      optimum={0}
      value={Math.min(used, limit)}
      aria-hidden="true"
    />
  );
}
