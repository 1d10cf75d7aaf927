import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Commit() {
  return (
    <>
      <Head title="Commit" />
      <div class="panel">
        <Empty title="No such commit">
          <p>The repository has no such commit.</p>
        </Empty>
      </div>
    </>
  );
}
