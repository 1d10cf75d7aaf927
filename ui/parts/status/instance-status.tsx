// The status of an instance of a Workflow, or of one of its steps.
import type { InstanceStatus, Step } from '../../models/storage/workflows.ts';
import { Badge } from './status.tsx';

const looks: Record<
  InstanceStatus | Step['status'],
  [word: string, look?: 'danger' | 'warn' | 'accent' | 'sleep']
> = {
  queued: ['queued'],
  running: ['running', 'accent'],
  waiting: ['waiting', 'sleep'],
  paused: ['paused', 'warn'],
  waitingForPause: ['pausing', 'warn'],
  rollingBack: ['rolling back', 'warn'],
  complete: ['complete'],
  errored: ['failed', 'danger'],
  terminated: ['terminated'],
};

export const instanceStatuses = Object.keys(looks) as InstanceStatus[];

export function wordOf(status: InstanceStatus): string {
  return looks[status][0];
}

export function InstanceBadge({ of }: { of: InstanceStatus | Step['status'] }) {
  const [word, look] = looks[of];
  return <Badge {...(look && { look })}>{word}</Badge>;
}
