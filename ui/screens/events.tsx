import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Events() {
  return (
    <>
      <Head title="Events" />
      <div class="panel">
        <Empty title="No events yet">
          <p>What the app tracks is shown here.</p>
        </Empty>
      </div>
    </>
  );
}
