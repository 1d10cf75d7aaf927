import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function User() {
  return (
    <>
      <Head title="User" />
      <div class="panel">
        <Empty title="No such user">
          <p>The app has not identified such a user.</p>
        </Empty>
      </div>
    </>
  );
}
