// One attack of `npm run bench -- hostile`, in a process of its own.
import { attacks, type Target } from './hostile-attacks.ts';

const { name, ...target } = JSON.parse(process.argv[2]!) as Target & { name: string };
process.once('disconnect', () => process.exit());
await attacks.find((attack) => attack.name === name)!.attack(target);
