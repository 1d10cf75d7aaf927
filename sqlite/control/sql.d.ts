// The bundler copies SQL files as text.
declare module '*.sql' {
  const sql: string;
  export default sql;
}
