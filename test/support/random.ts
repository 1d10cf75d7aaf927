// Shared options of property-based tests. A longer run with other cases:
// `FUZZ_RUNS=20000 FUZZ_SEED=$RANDOM node scripts/test.ts test/edge/http/differential.test.ts`.

/**
 * Returns options of fast-check's `assert`. The seed is fixed, so that only a code change makes a test fail; `FUZZ_SEED`
 * sets another.
 * @param usual number of cases; `FUZZ_RUNS` overrides it
 */
export function randomCases(usual = 100): { seed: number; numRuns: number } {
  const { FUZZ_SEED, FUZZ_RUNS } = process.env;
  return { seed: Number(FUZZ_SEED ?? 20_260_101), numRuns: Number(FUZZ_RUNS ?? usual) };
}
