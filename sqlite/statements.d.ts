/** One statement: its text, and the line of the file it begins at, counted from 1. */
export interface Statement {
  sql: string;
  line: number;
}

/** The statements of a file, without the comments around them. workerd refuses text that holds no statement. */
export function splitStatements(text: string): Statement[];
