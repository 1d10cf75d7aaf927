// A link for a person: to an account, a role on an app, or a new password.
import { LinkForm } from '../../layout/link-form.tsx';

export default function Invite() {
  return <LinkForm path="/invites/accept" />;
}
