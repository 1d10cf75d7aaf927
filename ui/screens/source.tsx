import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Source() {
  return (
    <>
      <Head title="Source" />
      <div class="panel">
        <Empty title="No source yet">
          <p>Push to main, and the files are shown here.</p>
        </Empty>
      </div>
    </>
  );
}
