// The image of a class and its limits in one text: workerd passes nothing else of the class's configuration to the service.

export interface ImageReference {
  image: string;
  memoryMb: number;
  /** Thousandths of a processor. */
  cpu: number;
  /** Maximum number of containers of the class, running or not. */
  instances: number;
}

/** Limits of Cloudflare's smallest instance, for an image that an app itself names when it starts a container. */
const LITE = { memoryMb: 256, cpu: 63, instances: 20 };

export function imageText({ image, memoryMb, cpu, instances }: ImageReference): string {
  return `${image}?memory=${memoryMb}&cpu=${cpu}&instances=${instances}`;
}

/** Parses the text that `imageText` made, or the bare name of an image. An app may send any text. */
export function parseImageText(text: string): ImageReference {
  const [image, query = ''] = text.split('?', 2);
  const fields = new URLSearchParams(query);
  const number = (name: string, normal: number) =>
    Math.max(1, Math.floor(Number(fields.get(name) ?? normal)) || normal);
  return {
    image: image!,
    memoryMb: number('memory', LITE.memoryMb),
    cpu: number('cpu', LITE.cpu),
    instances: number('instances', LITE.instances),
  };
}
