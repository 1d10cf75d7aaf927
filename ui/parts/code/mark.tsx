// Cellar's logo.

export function Mark({ size = 20 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 20 20" aria-hidden="true">
      <rect width="20" height="20" rx="5" fill="var(--accent)" />
      <path
        d="M8.7 3h2.6v4.2c0 1.2 2.2 1.6 2.2 3.8v5a1 1 0 0 1-1 1h-5a1 1 0 0 1-1-1v-5c0-2.2 2.2-2.6 2.2-3.8z"
        fill="var(--accent-ink)"
      />
    </svg>
  );
}
