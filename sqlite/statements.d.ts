/** One statement: its text, and the line of the file where the text begins, counted from 1. */
export interface Statement {
  sql: string;
  line: number;
}

/** Returns a SQL file's statements, without comments before or after them: workerd refuses text without a statement. */
export function splitStatements(text: string): Statement[];
