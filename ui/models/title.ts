// What people call what an app keeps.

/** The project's name for it, else its binding, else what never changes of its names. */
export function titleOf({
  id,
  name = null,
  binding,
}: {
  id: string;
  name?: string | null;
  binding: string | null;
}): string {
  return name ?? binding ?? id;
}
