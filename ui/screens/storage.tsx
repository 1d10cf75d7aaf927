import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Storage() {
  return (
    <>
      <Head title="Storage" />
      <div class="panel">
        <Empty title="Nothing stored">
          <p>Databases, Durable Objects, KV namespaces and buckets that the app binds are shown here.</p>
        </Empty>
      </div>
    </>
  );
}
