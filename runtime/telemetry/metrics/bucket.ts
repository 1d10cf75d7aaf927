// An app's figures in a minute or an hour.
import type { BucketRow } from '../../../sqlite/telemetry/buckets.ts';
import type { Usage } from '../protocol.ts';
import { type CountedRequest, isError } from '../traces/request-lines.ts';
import { count, decodeInto, encode, type Histogram } from './histogram.ts';

/** As `BucketRow`, with a mutable histogram. */
export type Bucket = Omit<BucketRow, 'latency'> & { latency: Histogram };

export function emptyBucket(): Bucket {
  return {
    requests: 0,
    errors: 0,
    client_errors: 0,
    rate_limited: 0,
    shed: 0,
    duration_ms: 0,
    bytes_in: 0,
    bytes_out: 0,
    cpu_ms: 0,
    memory_bytes: 0,
    wakes: 0,
    held_ms: 0,
    latency: new Map(),
  };
}

export function addRequest(bucket: Bucket, request: CountedRequest): void {
  bucket.requests++;
  if (isError(request)) bucket.errors++;
  else if (request.status >= 400 && request.status < 500) bucket.client_errors++;
  if (request.status === 429) bucket.rate_limited++;
  if (request.refused === 'shed') bucket.shed++;
  bucket.bytes_in += request.bytesIn;
  bucket.bytes_out += request.bytesOut;
  bucket.held_ms += request.heldMs;
  // A WebSocket's duration depends on its user: it is not a latency.
  if (request.upgraded) return;
  bucket.duration_ms += request.durationMs;
  count(bucket.latency, request.durationMs);
}

export function addUsage(bucket: Bucket, { cpuMs, memoryBytes, wakes }: Required<Usage>): void {
  bucket.cpu_ms += Math.round(cpuMs);
  bucket.memory_bytes = Math.max(bucket.memory_bytes, memoryBytes);
  bucket.wakes += wakes;
}

export function addRow(bucket: Bucket, { latency, memory_bytes, ...sums }: BucketRow): void {
  for (const name of Object.keys(sums) as (keyof typeof sums)[]) {
    if (name in bucket) bucket[name] += sums[name];
  }
  bucket.memory_bytes = Math.max(bucket.memory_bytes, memory_bytes);
  decodeInto(bucket.latency, latency);
}

export function toRow({ latency, ...rest }: Bucket): BucketRow {
  return { ...rest, latency: encode(latency) };
}
