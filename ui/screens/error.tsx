import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function ErrorScreen() {
  return (
    <>
      <Head title="Error" />
      <div class="panel">
        <Empty title="No such error">
          <p>It may have been let go of since.</p>
        </Empty>
      </div>
    </>
  );
}
