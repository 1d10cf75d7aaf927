// One attack of `npm run bench -- hostile`, in a process of its own.
import { spawnSync } from 'node:child_process';
import { setPriority } from 'node:os';
import { attacks, type Target } from './hostile-attacks.ts';

const { name, ...target } = JSON.parse(process.argv[2]!) as Target & { name: string };
// A stranger's machine is another one: what the attacker itself takes of the processors must not be taken for its effect. It gets
// what nobody else wants of them; where `chrt` is missing, as little as a low priority gives it.
setPriority(19);
spawnSync('chrt', ['--idle', '--all-tasks', '--pid', '0', String(process.pid)]);
for (const end of ['disconnect', 'SIGTERM']) process.once(end, () => process.exit());
await attacks.find((attack) => attack.name === name)!.attack(target);
