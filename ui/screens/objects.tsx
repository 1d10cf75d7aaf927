import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Objects() {
  return (
    <>
      <Head title="Durable Objects" />
      <div class="panel">
        <Empty title="No objects yet">
          <p>An object appears when the app first writes to it.</p>
        </Empty>
      </div>
    </>
  );
}
