import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Alerts() {
  return (
    <>
      <Head title="Alerts" />
      <div class="panel">
        <Empty title="No alerts yet">
          <p>An alert tells you when a figure leaves its range.</p>
        </Empty>
      </div>
    </>
  );
}
