// The only list of operations that are declared but not implemented: they answer 501.
export const notYet = [] as const;
