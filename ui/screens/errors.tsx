import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Errors() {
  return (
    <>
      <Head title="Errors" />
      <div class="panel">
        <Empty title="No open errors">
          <p>Errors that the app does not catch are grouped and shown here.</p>
        </Empty>
      </div>
    </>
  );
}
