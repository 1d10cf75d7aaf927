// Derives an app's secrets for the bucket from the Cellar's cluster key.
import { createHmac } from 'node:crypto';

export interface AppKeys {
  /** The S3 access key for the app's data: the app's id. */
  accessKey: string;
  /** The S3 secret key for the app's data, 64 hexadecimal characters. */
  secretKey: string;
  /** The S3 access key for the app's R2 objects. */
  objectsAccessKey: string;
  /** The S3 secret key for the app's R2 objects, 64 hexadecimal characters. */
  objectsSecretKey: string;
  /** The secret of the app's cluster, 64 hexadecimal characters. */
  clusterKey: string;
}

/** Suffix of an access key for R2 objects. */
const OBJECTS_KEY = '.r2';

/** What a key gives access to: the app's data, or its R2 objects. Also the name of the subfolder of the app's folder. */
export type Opens = 'data' | 'r2';

export function appKeys(clusterKey: string, appId: string): AppKeys {
  const derive = (purpose: string) =>
    createHmac('sha256', clusterKey).update(`${purpose}:${appId}`).digest('hex');
  return {
    accessKey: appId,
    secretKey: derive('bucket'),
    objectsAccessKey: appId + OBJECTS_KEY,
    objectsSecretKey: derive('r2'),
    clusterKey: derive('cluster'),
  };
}

/** Returns the app of an access key, and the folder that it opens. The app's id may be invalid. */
export function parseAccessKey(accessKey: string): { appId: string; opens: Opens } {
  return accessKey.endsWith(OBJECTS_KEY)
    ? { appId: accessKey.slice(0, -OBJECTS_KEY.length), opens: 'r2' }
    : { appId: accessKey, opens: 'data' };
}
