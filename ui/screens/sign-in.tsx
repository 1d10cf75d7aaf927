export default function SignIn() {
  return (
    <div class="door">
      <h1>Sign in</h1>
    </div>
  );
}
