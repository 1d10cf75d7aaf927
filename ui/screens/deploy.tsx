import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Deploy() {
  return (
    <>
      <Head title="Deploy" />
      <div class="panel">
        <Empty title="No such deploy">
          <p>It may have been let go of since.</p>
        </Empty>
      </div>
    </>
  );
}
