// Rate limits of an app at the edge.
import * as z from 'zod';
import { reference } from '../fields.ts';
import { operation } from '../operation.ts';

/** Requests per minute: null is the platform's default, 0 is off. */
const perMinute = z.int().min(0).max(10_000_000);

export const Limits = z.strictObject({
  /** Per visitor. */
  clientRpm: perMinute.nullable(),
  /** All visitors together. */
  appRpm: perMinute.nullable(),
  defaults: z.strictObject({ clientRpm: perMinute, appRpm: perMinute }),
});

export const limits = [
  operation({
    name: 'limits.get',
    summary: "Reads an app's edge limits",
    method: 'GET',
    needs: 'view',
    input: z.strictObject({ id: reference }),
    output: Limits,
  }),
  operation({
    name: 'limits.set',
    summary: "Sets an app's edge limits; omitted fields do not change",
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
] as const;
