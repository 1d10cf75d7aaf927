import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Limits() {
  return (
    <>
      <Head title="Limits" />
      <div class="panel">
        <Empty title="No limits of its own">
          <p>The limits of the machine hold for the app.</p>
        </Empty>
      </div>
    </>
  );
}
