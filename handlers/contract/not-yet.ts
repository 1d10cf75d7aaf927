// Operations that are declared and not built yet: answered with 501. The only list of them.
export const notYet = [
  'devices.list',
  'errors.get',
  'errors.list',
  'errors.set_status',
  'errors.stream',
  'paths.list',
  'refs.list',
  'spans.list',
] as const;
