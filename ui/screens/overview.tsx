import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Overview() {
  return (
    <>
      <Head title="Overview" />
      <div class="panel">
        <Empty title="Nothing to see yet" />
      </div>
    </>
  );
}
