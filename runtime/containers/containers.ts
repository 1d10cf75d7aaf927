// All containers of this machine's apps, and their limits.

import { Container, type ContainerPlace, type PortHandle } from './container.ts';
import { ContainerError } from './errors.ts';
import { parseImageText } from './image-reference.ts';
import {
  type ContainerRefusal,
  type ContainerReply,
  type ContainerRequest,
  IMAGE_NAME,
  MOST_CONTAINERS,
  MOST_CPU,
  MOST_MEMORY_MB,
  MOST_WORDS,
  type Spec,
  socketsOf,
} from './messages.ts';

/** Maximum number of an account's objects with a container, running or not. */
const MOST_OF_OWNER = MOST_CONTAINERS / 2;

export interface ContainersOptions {
  /** MiB that all containers may have together. An account may have half. */
  memoryMb: number;
  /** Directory of the sockets. */
  sockets: string;
  addresses: ContainerPlace['addresses'];
  send: (request: ContainerRequest | ContainerRefusal) => void;
}

export class Containers {
  readonly #options: ContainersOptions;
  readonly #opened = new Map<number, Container>();
  readonly #asked = new Map<number, PromiseWithResolvers<PortHandle | undefined>>();
  #lastNumber = 0;
  #lastCall = 0;

  constructor(options: ContainersOptions) {
    this.#options = options;
  }

  /**
   * Starts the servers for an object's container.
   * @param onEnd called when the removal of the container and its servers begins
   * @throws {ContainerError} with status 429 when the account has `MOST_OF_OWNER` containers
   */
  async open(app: string, owner: string, onEnd: () => void): Promise<Container> {
    const { sockets, addresses } = this.#options;
    const owned = [...this.#opened.values()].filter((each) => each.owner === owner);
    if (owned.length >= MOST_OF_OWNER)
      throw new ContainerError(
        429,
        `the objects of an account may have at most ${MOST_OF_OWNER} containers; stop one first`,
      );
    const number = ++this.#lastNumber;
    const container = new Container({
      app,
      owner,
      directory: socketsOf(sockets, number),
      addresses,
      ask: (wanted) => this.#ask(number, wanted),
      onEnd: () => {
        this.#opened.delete(number);
        onEnd();
      },
    });
    this.#opened.set(number, container);
    try {
      await container.open();
    } catch (error) {
      await container.end().catch(() => {});
      throw error;
    }
    return container;
  }

  /** Asks the host to write the reason of a failed call into the app's log. */
  refused(app: string, reason: string): void {
    this.#options.send({ app, reason });
  }

  /** Checks a new container against all limits. @throws {ContainerError} naming the limit */
  requireRoom(container: Container, spec: Spec, imageText: string): void {
    if (!IMAGE_NAME.test(spec.image)) throw new ContainerError(400, 'the name of the image is invalid');
    if (spec.memoryMb > MOST_MEMORY_MB)
      throw new ContainerError(400, `a container may have at most ${MOST_MEMORY_MB} MiB of memory`);
    if (spec.cpu > MOST_CPU)
      throw new ContainerError(400, `a container may have at most ${MOST_CPU / 1000} vCPU`);
    const bytes = Buffer.byteLength([...(spec.command ?? []), ...spec.environment].join());
    if (bytes > MOST_WORDS)
      throw new ContainerError(
        413,
        `the command and environment of a container may have at most ${MOST_WORDS} bytes`,
      );
    const others = [...this.#opened.values()].filter((each) => each !== container);
    const { instances } = parseImageText(imageText);
    if (
      others.filter((each) => each.app === container.app && each.imageText === imageText).length >= instances
    )
      throw new ContainerError(
        429,
        `${instances} containers of this class run already: stop one, or raise max_instances`,
      );
    const { memoryMb } = this.#options;
    const used = (all: Container[]) => all.reduce((sum, each) => sum + each.memoryMb, spec.memoryMb);
    if (used(others) > memoryMb)
      throw new ContainerError(
        429,
        `all containers of this machine may have at most ${memoryMb} MiB of memory together; try again later`,
      );
    const owned = others.filter(({ owner }) => owner === container.owner);
    if (used(owned) > memoryMb / 2)
      throw new ContainerError(
        429,
        `the containers of an account may have at most ${memoryMb / 2} MiB of memory together; stop one first`,
      );
  }

  /** Handles the host's answer to a call. */
  answered({ call, error }: ContainerReply, handle: PortHandle | undefined): void {
    const asked = this.#asked.get(call);
    this.#asked.delete(call);
    if (error === null) asked?.resolve(handle);
    else asked?.reject(new ContainerError(error.status, error.message));
  }

  /** Handles the host's report that a container has ended. */
  exited(number: number, code: number): void {
    this.#opened.get(number)?.hasExited(code);
  }

  #ask(container: number, wanted: ContainerRequest['wanted']): Promise<PortHandle | undefined> {
    const call = ++this.#lastCall;
    const asked = Promise.withResolvers<PortHandle | undefined>();
    this.#asked.set(call, asked);
    this.#options.send({ call, container, wanted });
    return asked.promise;
  }
}
