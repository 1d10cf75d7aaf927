// Titles of storage resources.

/** Returns the project's name, else the binding, else the id. */
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
