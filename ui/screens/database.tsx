import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Database() {
  return (
    <>
      <Head title="Database" />
      <div class="panel">
        <Empty title="No tables yet">
          <p>The migrations of the app make its tables.</p>
        </Empty>
      </div>
    </>
  );
}
