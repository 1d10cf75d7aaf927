// Kills the host again and again while an app moves between the machine and the bucket. Fails when data is missing.
import { killDuringMoves } from '../../test/support/e2e/killed-moves.ts';

const WORDS = process.argv.slice(2).filter((word) => word !== '--moves');
const ROUNDS = Number(WORDS[0] ?? 5);

await killDuringMoves(ROUNDS, (round) =>
  console.log(`${new Date().toISOString()} ${round}: all data is there`),
);
console.log('nothing is lost, and the moves can be repeated');
