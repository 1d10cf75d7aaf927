/** An error for workerd, which shows the text to the app. */
export class ContainerError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}
