// A Hyperdrive binding in an app's Worker. The connection string is a secret of the app. The app connects to the database as
// to any other address. Connections are not pooled, and results are not cached.
import sockets from 'cloudflare-internal:sockets';

const PORTS = { 'postgres:': 5432, 'postgresql:': 5432, 'mysql:': 3306 };

class Hyperdrive {
  #binding;
  #given;

  constructor(binding, given) {
    this.#binding = binding;
    this.#given = given;
  }

  #url() {
    const how = `set the app's secret ${this.#binding} to one, such as postgres://user:password@db.example.com/name`;
    if (this.#given === undefined)
      throw new Error(`The Hyperdrive binding ${this.#binding} has no connection string: ${how}`);
    const url = URL.canParse(this.#given) ? new URL(this.#given) : null;
    // The message must not contain the secret.
    if (url === null || !Object.hasOwn(PORTS, url.protocol) || url.hostname === '')
      throw new Error(
        `The secret ${this.#binding} is not a connection string of PostgreSQL or MySQL: ${how}`,
      );
    return url;
  }

  get connectionString() {
    this.#url();
    return this.#given;
  }
  get host() {
    return this.#url().hostname;
  }
  get port() {
    const { port, protocol } = this.#url();
    return port === '' ? PORTS[protocol] : Number(port);
  }
  get user() {
    return decodeURIComponent(this.#url().username);
  }
  get password() {
    return decodeURIComponent(this.#url().password);
  }
  get database() {
    return decodeURIComponent(this.#url().pathname.slice(1));
  }

  connect() {
    return sockets.connect({ hostname: this.host, port: this.port });
  }
}

export default ({ binding, connectionString }) => new Hyperdrive(binding, connectionString);
