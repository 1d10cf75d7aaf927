import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function People() {
  return (
    <>
      <Head title="People and invites" />
      <div class="panel">
        <Empty title="Nobody else yet">
          <p>Invite somebody with a link.</p>
        </Empty>
      </div>
    </>
  );
}
