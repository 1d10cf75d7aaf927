import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Commits() {
  return (
    <>
      <Head title="Commits" />
      <div class="panel">
        <Empty title="No commits yet">
          <p>Push to main, and the commits are shown here.</p>
        </Empty>
      </div>
    </>
  );
}
