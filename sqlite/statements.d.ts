/** One statement: its text, and the line of the file it begins at, counted from 1. */
export interface Statement {
  sql: string;
  line: number;
}

/** Returns the statements of a file, without comments around them: workerd refuses text without a statement. */
export function splitStatements(text: string): Statement[];
