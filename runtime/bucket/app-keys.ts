// Derives an app's secrets for the bucket from the host's cluster key.
import { createHmac } from 'node:crypto';

/** An app's keys. */
export interface AppKeys {
  /** The S3 access key: the app's id. */
  accessKey: string;
  /** The S3 secret key, 64 hexadecimal characters. */
  secretKey: string;
  /** The secret of the app's cluster, 64 hexadecimal characters. */
  clusterKey: string;
}

export function appKeys(clusterKey: string, appId: string): AppKeys {
  const derive = (purpose: string) =>
    createHmac('sha256', clusterKey).update(`${purpose}:${appId}`).digest('hex');
  return { accessKey: appId, secretKey: derive('bucket'), clusterKey: derive('cluster') };
}
