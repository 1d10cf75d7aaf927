import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function ObjectScreen() {
  return (
    <>
      <Head title="Durable Object" />
      <div class="panel">
        <Empty title="Nothing stored">
          <p>The object has written nothing.</p>
        </Empty>
      </div>
    </>
  );
}
