export default function Welcome() {
  return (
    <div class="door">
      <h1>Welcome</h1>
    </div>
  );
}
