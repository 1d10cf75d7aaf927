import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Account() {
  return (
    <>
      <Head title="Account" />
      <div class="panel">
        <Empty title="Your account" />
      </div>
    </>
  );
}
