// System call filters for seccomp(2) and bubblewrap.
import { existsSync } from 'node:fs';

/** One instruction of a filter: its code, how many instructions to skip when a comparison holds or fails, its operand. */
export type Instruction = [code: number, then: number, otherwise: number, operand: number];

/** Codes of the classic BPF instructions that the filters need. The kernel accepts more. */
export const BPF = { load: 0x20, and: 0x54, isEqual: 0x15, answer: 0x06 };
/** Byte offsets in `struct seccomp_data`, the description of a call that a filter reads. */
export const CALL = { number: 0, architecture: 4, firstArgument: 16 };
export const ANSWERS = {
  allow: 0x7fff0000,
  /** The call does nothing and fails with this error number; with 0, it returns 0. */
  error: (number: number): number => 0x00050000 + number,
};

/** System call numbers of one architecture. */
interface Calls {
  setsid: number;
  socket: number;
  /** Numbers of calls that can make sockets of any family without socket(2). A filter cannot read the family there. */
  hidden: number[];
}

/** Number of io_uring_setup(2), the same on every architecture. Requests to an io_uring can open sockets. */
const IO_URING_SETUP = 425;
const MACHINES: Partial<
  Record<string, { architecture: number; prctl: number; own: Calls; of32Bits: Calls }>
> = {
  x64: {
    architecture: 0xc000003e,
    prctl: 157,
    own: { setsid: 112, socket: 41, hidden: [IO_URING_SETUP] },
    of32Bits: { setsid: 66, socket: 359, hidden: [IO_URING_SETUP, 102] },
  },
  arm64: {
    architecture: 0xc00000b7,
    prctl: 167,
    own: { setsid: 157, socket: 198, hidden: [IO_URING_SETUP] },
    of32Bits: { setsid: 66, socket: 281, hidden: [IO_URING_SETUP] },
  },
};
/** Mask for a call number without the bit for 32-bit pointers, on x86-64. */
const NUMBER_BITS = 0xbfffffff;
/** AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK, which programs use to list the machine's addresses. */
const FAMILIES = [1, 2, 10, 16];
const ENOSYS = 38;
const EAFNOSUPPORT = 97;

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
 * Returns the filter for the programs of a build. It allows the usual socket families only: AF_VSOCK reaches the host of
 * this virtual machine, past the packet filter. It blocks io_uring.
 * @param isOneSession whether setsid(2) does nothing and returns 0. A program that only wants to leave its terminal still
 *   works
 * @throws {Error} on an architecture whose system calls are not known
 */
export function buildFilter(isOneSession: boolean): Buffer {
  const { architecture, own, of32Bits } = machine();
  const ofOwn = instructions(own, isOneSession);
  return encodeFilter([
    [BPF.load, 0, 0, CALL.architecture],
    [BPF.isEqual, 0, ofOwn.length, architecture],
    ...ofOwn,
    ...instructions(of32Bits, isOneSession),
  ]);
}

function instructions({ setsid, socket, hidden }: Calls, isOneSession: boolean): Instruction[] {
  const answerTo = (operand: number, answer: number): Instruction[] => [
    [BPF.isEqual, 0, 1, operand],
    [BPF.answer, 0, 0, answer],
  ];
  return [
    [BPF.load, 0, 0, CALL.number],
    [BPF.and, 0, 0, NUMBER_BITS],
    ...(isOneSession ? answerTo(setsid, ANSWERS.error(0)) : []),
    ...hidden.flatMap((number) => answerTo(number, ANSWERS.error(ENOSYS))),
    [BPF.isEqual, 1, 0, socket],
    [BPF.answer, 0, 0, ANSWERS.allow],
    [BPF.load, 0, 0, CALL.firstArgument],
    ...FAMILIES.flatMap((family) => answerTo(family, ANSWERS.allow)),
    [BPF.answer, 0, 0, ANSWERS.error(EAFNOSUPPORT)],
  ];
}

/** Perl script that applies a filter in hexadecimal and runs a command. Only newer versions of setpriv(1) can do that. */
const UNDER_FILTER = `my $filter = pack('H*', shift);
my $program = pack('S x!8 P', length($filter) / 8, $filter);
syscall(shift, 22, 2, $program, 0, 0) == 0 or die "the filter of system calls was refused: $!\\n";
exec { $ARGV[0] } @ARGV or die "$ARGV[0]: $!\\n";`;
export const PERL = '/usr/bin/perl';

/** Whether `underFilter` can apply filters. */
export function canFilter(): boolean {
  return existsSync(PERL);
}

/**
 * Returns the command prefix that applies a filter; empty where `canFilter` is false. The kernel demands that the process
 * has `no_new_privs` set, as by `asUser`, or CAP_SYS_ADMIN.
 */
export function underFilter(filter: Buffer): string[] {
  return canFilter() ? [PERL, '-e', UNDER_FILTER, '--', filter.toString('hex'), String(machine().prctl)] : [];
}

function machine() {
  const found = MACHINES[process.arch];
  if (found === undefined) throw new Error(`no filter of system calls is known for ${process.arch}`);
  return found;
}
