import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Traces() {
  return (
    <>
      <Head title="Traces" />
      <div class="panel">
        <Empty title="No traces yet">
          <p>Requests that took a second or more, or failed, are kept here.</p>
        </Empty>
      </div>
    </>
  );
}
