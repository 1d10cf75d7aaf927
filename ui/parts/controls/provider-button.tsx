// Button that leads to the provider by which people sign in.
import { provider } from '../../session.ts';
import { IconKeyRound } from '../icons.tsx';
import { Button } from './button.tsx';

/** Renders nothing when there is no sign-in provider. */
export function ProviderButton({ onClick }: { onClick: () => Promise<void> }) {
  if (provider.value === null) return null;
  return (
    <Button look={provider.value.required ? 'primary' : undefined} onClick={onClick}>
      <IconKeyRound /> Sign in with {provider.value.name}
    </Button>
  );
}
