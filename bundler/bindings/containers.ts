// The containers of Durable Object classes in a Wrangler configuration.
import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import type { ClassContainer } from '../release.ts';

/** Matches an image's name, with or without a registry. Does not match a Dockerfile, whose path Wrangler makes absolute. */
const IMAGE_NAME = /^[a-z0-9][a-z0-9._/:@-]{0,254}$/i;
/** Cloudflare's types of instances: MiB of memory, and thousandths of a processor. */
const TYPES: Record<string, { memoryMb: number; cpu: number }> = {
  lite: { memoryMb: 256, cpu: 63 },
  dev: { memoryMb: 256, cpu: 63 },
  basic: { memoryMb: 1024, cpu: 250 },
  'standard-1': { memoryMb: 4096, cpu: 500 },
  standard: { memoryMb: 4096, cpu: 500 },
  'standard-2': { memoryMb: 6144, cpu: 1000 },
  'standard-3': { memoryMb: 8192, cpu: 2000 },
  'standard-4': { memoryMb: 12_288, cpu: 4000 },
};
const NORMAL = 'lite';
/** Wrangler's default for `max_instances`. */
const INSTANCES = 20;

/**
 * Returns the containers of classes. Wrangler has checked the types of the fields.
 * @param file the configuration's name in messages
 * @throws {BuildFailure} naming the wrong field
 */
export function classContainers(
  file: string,
  { containers = [], durable_objects }: Pick<WranglerConfig, 'containers' | 'durable_objects'>,
): ClassContainer[] {
  return containers.map(({ class_name: className, image, max_instances, instance_type = NORMAL }) => {
    const where = `${file}: containers: ${className}`;
    if (!durable_objects.bindings.some(({ class_name }) => class_name === className))
      throw new BuildFailure(
        `${where}: class_name: no binding in "durable_objects.bindings" has this class; add one`,
      );
    if (!IMAGE_NAME.test(image))
      throw new BuildFailure(
        `${where}: image: Cellar builds no images. Build the image on Cellar's machine, such as by "podman build -t localhost/worker:1 .", and name it here: "localhost/worker:1"`,
      );
    const type = typeof instance_type === 'string' ? TYPES[instance_type] : sizeOf(instance_type);
    if (type === undefined)
      throw new BuildFailure(
        `${where}: instance_type: must be one of ${Object.keys(TYPES).join(', ')}, or have "vcpu" and "memory_mib"`,
      );
    return { className, image, ...type, instances: max_instances || INSTANCES };
  });
}

function sizeOf({ vcpu, memory_mib }: { vcpu?: number; memory_mib?: number }): {
  memoryMb: number;
  cpu: number;
} {
  const normal = TYPES[NORMAL]!;
  return {
    memoryMb: memory_mib === undefined ? normal.memoryMb : Math.round(memory_mib),
    cpu: vcpu === undefined ? normal.cpu : Math.round(vcpu * 1000),
  };
}
