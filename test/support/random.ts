// What all tests of random cases share. A longer run of one of them, with other cases:
// `FUZZ_RUNS=20000 FUZZ_SEED=$RANDOM node scripts/test.ts test/edge/http/differential.test.ts`.

/**
 * Options of fast-check's `assert`: the same cases in every run, so that a failure is a change's, or those of `FUZZ_SEED`.
 * @param usual how many cases the suite tries; `FUZZ_RUNS` says another number
 */
export function randomCases(usual = 100): { seed: number; numRuns: number } {
  const { FUZZ_SEED, FUZZ_RUNS } = process.env;
  return { seed: Number(FUZZ_SEED ?? 20_260_101), numRuns: Number(FUZZ_RUNS ?? usual) };
}
