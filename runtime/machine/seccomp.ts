// Filters of system calls, as seccomp(2) and bubblewrap take them.

/** One instruction of a filter: what it does, how many of the next ones are left out when a comparison holds or fails, its operand. */
export type Instruction = [code: number, then: number, otherwise: number, operand: number];

/** What instructions do: classic BPF, of which the kernel takes so much. */
export const BPF = { load: 0x20, and: 0x54, isEqual: 0x15, answer: 0x06 };
/** Where the call is found. */
export const CALL = { number: 0, architecture: 4 };
export const ANSWERS = {
  allow: 0x7fff0000,
  /** The call does nothing and returns this error, by its number; with 0 the caller takes it for done. */
  error: (number: number): number => 0x00050000 + number,
};

/** The audit numbers of architectures, and there the number of setsid(2). */
const SETSID: Partial<Record<string, { architecture: number; number: number }>> = {
  x64: { architecture: 0xc000003e, number: 112 },
  arm64: { architecture: 0xc00000b7, number: 157 },
};
/** The number of setsid(2) for programs of 32 bits, on both. */
const SETSID_32 = 66;
/** All of a number but the bit that says that pointers have 32 bits, on x86-64. */
const NUMBER_BITS = 0xbfffffff;

export function encodeFilter(instructions: Instruction[]): Buffer {
  const filter = Buffer.alloc(8 * instructions.length);
  for (const [index, [code, then, otherwise, operand]] of instructions.entries()) {
    filter.writeUInt16LE(code, 8 * index);
    filter.writeUInt8(then, 8 * index + 2);
    filter.writeUInt8(otherwise, 8 * index + 3);
    filter.writeUInt32LE(operand, 8 * index + 4);
  }
  return filter;
}

/**
 * A filter under which no program begins a session: setsid(2) returns 0 and does nothing. A program that wants to be left
 * alone by the terminal works all the same.
 */
export function oneSession(): Buffer {
  const setsid = SETSID[process.arch];
  if (setsid === undefined) throw new Error(`no filter of system calls is known for ${process.arch}`);
  return encodeFilter([
    [BPF.load, 0, 0, CALL.architecture],
    [BPF.isEqual, 0, 3, setsid.architecture],
    [BPF.load, 0, 0, CALL.number],
    [BPF.and, 0, 0, NUMBER_BITS],
    [BPF.isEqual, 3, 2, setsid.number],
    [BPF.load, 0, 0, CALL.number],
    [BPF.isEqual, 1, 0, SETSID_32],
    [BPF.answer, 0, 0, ANSWERS.allow],
    [BPF.answer, 0, 0, ANSWERS.error(0)],
  ]);
}
