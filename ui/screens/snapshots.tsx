import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Snapshots() {
  return (
    <>
      <Head title="Snapshots" />
      <div class="panel">
        <Empty title="No snapshots yet">
          <p>A snapshot holds everything of this Cellar.</p>
        </Empty>
      </div>
    </>
  );
}
