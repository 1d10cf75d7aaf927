import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Users() {
  return (
    <>
      <Head title="Users" />
      <div class="panel">
        <Empty title="No users yet">
          <p>Users appear when the app identifies them.</p>
        </Empty>
      </div>
    </>
  );
}
