import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Domains() {
  return (
    <>
      <Head title="Domains" />
      <div class="panel">
        <Empty title="No domains yet">
          <p>The app answers at its own address. Domains of yours can be added.</p>
        </Empty>
      </div>
    </>
  );
}
