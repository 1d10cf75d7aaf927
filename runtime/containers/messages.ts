// Messages between the container service and the host. Only the host reaches the container engine.
import { z } from 'zod';

/** The name of an image, as engines know it. */
export const IMAGE_NAME = /^[a-z0-9][a-z0-9._/:@-]{0,254}$/i;
/** Maximum memory of a container, in MiB, as of Cloudflare's largest instance. */
export const MOST_MEMORY_MB = 12 * 1024;
/** Maximum processor time of a container, in thousandths of a processor, as of Cloudflare's largest instance. */
export const MOST_CPU = 4_000;
/** Maximum number of containers of this machine, whatever their memory. */
export const MOST_CONTAINERS = 64;
/** Maximum bytes of a container's command and environment together. */
export const MOST_WORDS = 64 * 1024;
/** Maximum number of arguments, and of variables. */
const MOST_ITEMS = 512;
const SIGNALS = 64;

const words = z.array(z.string().max(MOST_WORDS)).max(MOST_ITEMS);
/** The settings of a container. */
const Spec = z.strictObject({
  image: z.string().regex(IMAGE_NAME),
  memoryMb: z.int().min(1).max(MOST_MEMORY_MB),
  /** Thousandths of a processor. */
  cpu: z.int().min(1).max(MOST_CPU),
  /** Null: the image's own. */
  command: words.nullable(),
  environment: words,
});
export type Spec = z.infer<typeof Spec>;

/** A request of the service to the host. The host validates it, because the service parses input of apps. */
export const ContainerRequest = z.strictObject({
  call: z.int(),
  /** Number of the container. A process of the service never uses a number twice. */
  container: z.int().min(0),
  wanted: z.discriminatedUnion('do', [
    /** Binds the port where the app's process reaches the container. The reply has the socket. */
    z.strictObject({ do: z.literal('listen'), app: z.string() }),
    z.strictObject({ do: z.literal('create'), spec: Spec }),
    z.strictObject({ do: z.literal('start') }),
    z.strictObject({ do: z.literal('signal'), signal: z.int().min(1).max(SIGNALS) }),
    z.strictObject({ do: z.literal('remove') }),
    /** Removes the container, and closes its port to the app's process. */
    z.strictObject({ do: z.literal('close') }),
  ]),
});
export type ContainerRequest = z.infer<typeof ContainerRequest>;

const MOST_REASON = 500;

/** Reports why an app's call failed, for the app's log: workerd does not pass the reason on to the app. */
export const ContainerRefusal = z.strictObject({
  app: z.string(),
  reason: z.string().transform((text) => text.slice(0, MOST_REASON)),
});
export type ContainerRefusal = z.infer<typeof ContainerRefusal>;

export interface ContainerReply {
  call: number;
  error: { status: number; message: string } | null;
}

/** Reports that a started container has ended. */
export interface ContainerEnd {
  container: number;
  exitCode: number;
}

export interface ContainerServiceOptions {
  /** Directory with a directory of sockets for each container. */
  sockets: string;
  /** Private addresses and CIDR ranges that apps may reach. */
  egress: readonly string[];
}

/** Returns the directory of the sockets that connect a container with the service. */
export function socketsOf(sockets: string, container: number): string {
  return `${sockets}/${container}`;
}
