import { Head } from '../layout/head.tsx';
import { Empty } from '../parts/states.tsx';

export default function Collaborators() {
  return (
    <>
      <Head title="Collaborators" />
      <div class="panel">
        <Empty title="No collaborators yet">
          <p>People with an account here can be given a role on the app.</p>
        </Empty>
      </div>
    </>
  );
}
