import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Variables() {
  return (
    <>
      <Head title="Variables and secrets" />
      <div class="panel">
        <Empty title="No variables yet">
          <p>Variables are given to install and build; secrets to the running app.</p>
        </Empty>
      </div>
    </>
  );
}
