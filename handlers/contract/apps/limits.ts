// Settings with which the edge handles the requests of an app: rate limits and the maintenance page.
import * as z from 'zod';
import { reference } from '../fields.ts';
import { operation } from '../operation.ts';
import { MAINTENANCE_HTML_BYTES } from '../sizes.ts';
import { byteLength } from '../text.ts';

/** Requests per minute; 0: no limit. Where null is allowed, it means the platform's default. */
const perMinute = z.int().min(0).max(10_000_000);

export const Limits = z.strictObject({
  /** Limit for each visitor. */
  clientRpm: perMinute.nullable(),
  /** Limit for all visitors together. */
  appRpm: perMinute.nullable(),
  defaults: z.strictObject({ clientRpm: perMinute, appRpm: perMinute }),
});

const maintenanceHtml = z
  .string()
  .max(MAINTENANCE_HTML_BYTES)
  .refine((value) => byteLength(value) <= MAINTENANCE_HTML_BYTES, {
    error: `must have at most ${MAINTENANCE_HTML_BYTES} bytes in UTF-8`,
  })
  .regex(/^[^\0]*$/, 'must not have a NUL character')
  .refine((value) => value.trim() !== '', { error: 'must be HTML, or null' });

export const Maintenance = z.strictObject({
  enabled: z.boolean(),
  /** The page that visitors get; null: Cellar's own. The page is kept while maintenance is off. */
  html: z.string().nullable(),
});

export const limits = [
  operation({
    name: 'limits.get',
    summary: 'Reads how many requests per minute an app accepts',
    method: 'GET',
    needs: 'view',
    input: z.strictObject({ id: reference }),
    output: Limits,
  }),
  operation({
    name: 'limits.set',
    summary: 'Sets how many requests per minute an app accepts; omitted fields do not change',
    method: 'POST',
    needs: 'admin',
    input: z.strictObject({
      id: reference,
      clientRpm: perMinute.nullable().optional(),
      appRpm: perMinute.nullable().optional(),
    }),
    output: Limits,
    errors: ['transition_conflict', 'host_unavailable'],
  }),
  operation({
    name: 'maintenance.get',
    summary: 'Reads whether visitors of an app get its maintenance page, and that page',
    method: 'GET',
    path: '/v1/apps/:id/maintenance',
    needs: 'view',
    input: z.strictObject({ id: reference }),
    output: Maintenance,
  }),
  operation({
    name: 'maintenance.set',
    summary:
      'Turns the maintenance page of an app on or off, or sets it: visitors get 503; omitted fields do not change',
    method: 'PATCH',
    path: '/v1/apps/:id/maintenance',
    needs: 'admin',
    input: z.strictObject({
      id: reference,
      enabled: z.boolean().optional(),
      html: maintenanceHtml.nullable().optional(),
    }),
    output: Maintenance,
    errors: ['transition_conflict', 'host_unavailable'],
  }),
] as const;
