import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Trace() {
  return (
    <>
      <Head title="Trace" />
      <div class="panel">
        <Empty title="No such trace">
          <p>It may have been let go of since.</p>
        </Empty>
      </div>
    </>
  );
}
