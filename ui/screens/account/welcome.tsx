// The first start: its link makes whoever has it the first administrator.
import { LinkForm } from '../../layout/link-form.tsx';

export default function Welcome() {
  return <LinkForm path="/welcome" />;
}
