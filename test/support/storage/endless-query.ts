/** A query that never ends and needs no table. */
export const ENDLESS_QUERY =
  'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n';
