/** A refused call of workerd. workerd does not pass the message on to the app, so it is also written to the app's log. */
export class ContainerError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}
