// Kills parts of Cellar at random moments while apps write, and reports what is lost: `npm run chaos`.
// `npm run chaos -- 100` sets the number of rounds. `npm run chaos -- 100 cell,host` kills only these parts.
// With `--bucket`, the app keeps its data in a bucket, and some rounds delete its data on the disk. With `--lost`, the whole
// machine is lost in each round, and an empty one continues from the bucket. With `--hosts`, one of three hosts fails in
// each round; SIGUSR2 ends the script after the current round. With `--moves`, the host is killed while an app moves
// between the machine and the bucket.
if (process.argv.includes('--hosts')) await import('./chaos/hosts.ts');
else if (process.argv.includes('--lost')) await import('./chaos/lost.ts');
else if (process.argv.includes('--moves')) await import('./chaos/moves.ts');
else await import('./chaos/kills.ts');
