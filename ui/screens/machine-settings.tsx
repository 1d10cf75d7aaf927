import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function MachineSettings() {
  return (
    <>
      <Head title="Settings of the machine" />
      <div class="panel">
        <Empty title="As they are by default" />
      </div>
    </>
  );
}
