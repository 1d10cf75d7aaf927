// Operations that are declared and not built yet: answered with 501. The only list of them.
export const notYet = [] as const;
