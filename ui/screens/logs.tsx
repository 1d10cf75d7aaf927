import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Logs() {
  return (
    <>
      <Head title="Logs" />
      <div class="panel">
        <Empty title="No lines yet">
          <p>
            What the app writes with console.log, and what its builds say, is shown here as it is written.
          </p>
        </Empty>
      </div>
    </>
  );
}
