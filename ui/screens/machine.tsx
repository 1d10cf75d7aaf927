import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Machine() {
  return (
    <>
      <Head title="Machine" />
      <div class="panel">
        <Empty title="The machine" />
      </div>
    </>
  );
}
