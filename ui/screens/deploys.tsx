import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Deploys() {
  return (
    <>
      <Head title="Deploys" />
      <div class="panel">
        <Empty title="No deploys yet">
          <p>Push to main, and the deploy is shown here while it runs.</p>
        </Empty>
      </div>
    </>
  );
}
