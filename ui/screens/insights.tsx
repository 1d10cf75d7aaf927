import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Insights() {
  return (
    <>
      <Head title="Insights" />
      <div class="panel">
        <Empty title="No insights yet">
          <p>What the app sets or counts for each of its users is shown here.</p>
        </Empty>
      </div>
    </>
  );
}
