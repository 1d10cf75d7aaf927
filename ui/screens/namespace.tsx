import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Namespace() {
  return (
    <>
      <Head title="Namespace" />
      <div class="panel">
        <Empty title="No keys yet">
          <p>Keys appear when the app puts them.</p>
        </Empty>
      </div>
    </>
  );
}
