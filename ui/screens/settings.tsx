import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Settings() {
  return (
    <>
      <Head title="Settings" />
      <div class="panel">
        <Empty title="Nothing to set" />
      </div>
    </>
  );
}
