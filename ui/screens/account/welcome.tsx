// The first start: the link's holder becomes the first admin.
import { LinkForm } from '../../layout/link-form.tsx';

export default function Welcome() {
  return <LinkForm path="/welcome" />;
}
