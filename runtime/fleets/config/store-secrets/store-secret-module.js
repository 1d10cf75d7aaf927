// A binding to a secret of the account's Secrets Store. Each `get()` asks the host, so a changed value needs no new process.

class StoreSecret {
  #host;
  #name;

  constructor(host, name) {
    this.#host = host;
    this.#name = name;
  }

  /** Returns the value. @throws {Error} when the store has no such secret, or the value cannot be read now */
  async get() {
    const { status, text } = await this.#ask();
    if (status === 200) return text;
    if (status === 404) throw new Error(`Secret "${this.#name}" not found`);
    throw new Error(`Secret "${this.#name}" cannot be read now; try again`);
  }

  /**
   * Asks the host for the secret. Returns status 503 if the host does not answer: workerd's own error would not name the
   * cause.
   */
  async #ask() {
    try {
      const answer = await this.#host.fetch('http://secrets-store/');
      return { status: answer.status, text: await answer.text() };
    } catch {
      return { status: 503, text: '' };
    }
  }
}

export default ({ host, name }) => new StoreSecret(host, name);
