import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function New() {
  return (
    <>
      <Head title="New app" />
      <div class="panel">
        <Empty title="Give it a name" />
      </div>
    </>
  );
}
