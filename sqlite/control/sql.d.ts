// The bundler imports SQL files as text.
declare module '*.sql' {
  const sql: string;
  export default sql;
}
