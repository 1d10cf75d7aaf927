import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Bucket() {
  return (
    <>
      <Head title="Bucket" />
      <div class="panel">
        <Empty title="No objects yet">
          <p>Drop files here, or let the app put them.</p>
        </Empty>
      </div>
    </>
  );
}
