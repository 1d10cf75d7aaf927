// One attack of `npm run bench -- hostile`, in a process of its own.
import { spawnSync } from 'node:child_process';
import { setPriority } from 'node:os';
import { attacks, type Target } from './hostile-attacks.ts';

const { name, ...target } = JSON.parse(process.argv[2]!) as Target & { name: string };
// A real attacker has another machine: the attacker's own CPU time must not count as its effect. It gets idle CPU time only;
// where `chrt` is missing, the lowest normal priority.
setPriority(19);
spawnSync('chrt', ['--idle', '--all-tasks', '--pid', '0', String(process.pid)]);
for (const end of ['disconnect', 'SIGTERM']) process.once(end, () => process.exit());
await attacks.find((attack) => attack.name === name)!.attack(target);
