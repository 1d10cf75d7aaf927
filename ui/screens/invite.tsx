export default function Invite() {
  return (
    <div class="door">
      <h1>You are invited</h1>
    </div>
  );
}
