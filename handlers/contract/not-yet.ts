// Operations that are declared and not built yet: answered with 501. The only list of them.
export const notYet = ['errors.get', 'errors.list', 'errors.set_status', 'errors.stream'] as const;
