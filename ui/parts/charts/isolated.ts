// Values that a line does not show.

/** Returns the indices of values with gaps on both sides, which no line shows. */
export function isolated(values: ArrayLike<number | null | undefined>): number[] {
  const isKnown = (i: number) => typeof values[i] === 'number';
  return Array.from({ length: values.length }, (_, i) => i).filter(
    (i) => isKnown(i) && !isKnown(i - 1) && !isKnown(i + 1),
  );
}
