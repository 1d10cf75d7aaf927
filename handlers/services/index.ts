// Every implementation, by operation.
import type { OperationName } from '../contract/index.ts';
import type { notYet } from '../contract/not-yet.ts';
import { appServices } from './apps.ts';
import { deployServices } from './deploys.ts';
import type { Service } from './types.ts';

type Built = Exclude<OperationName, (typeof notYet)[number]>;

export const services = {
  ...appServices,
  ...deployServices,
} satisfies { [Name in Built]: Service<Name> };
