// Finds values between gaps. A line connects at least two values, so a chart draws these as points.

/** Returns the indices of values with gaps on both sides. */
export function isolated(values: ArrayLike<number | null | undefined>): number[] {
  const isKnown = (i: number) => typeof values[i] === 'number';
  return Array.from({ length: values.length }, (_, i) => i).filter(
    (i) => isKnown(i) && !isKnown(i - 1) && !isKnown(i + 1),
  );
}
