/** The processors that a filter is available for, named as in `process.arch`. */
export type FilterArch = "x64" | "arm64";

// The kernel's system call numbers: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
const denied: Record<string, [x64: number | undefined, arm64: number | undefined]> = {
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  bpf: [321, 280],
  keyctl: [250, 219],
  add_key: [248, 217],
  request_key: [249, 218],
  userfaultfd: [323, 282],
  perf_event_open: [298, 241],
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  kcmp: [312, 272],
  pidfd_getfd: [438, 438],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  move_mount: [429, 429],
  open_tree: [428, 428],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  setns: [308, 268],
  unshare: [272, 97],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  acct: [163, 89],
  swapon: [167, 224],
  swapoff: [168, 225],
  reboot: [169, 142],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  clock_adjtime: [305, 266],
  adjtimex: [159, 171],
  syslog: [103, 116],
  vhangup: [153, 58],
  fanotify_init: [300, 262],
  sethostname: [170, 161],
  setdomainname: [171, 162],
  iopl: [172, undefined],
  ioperm: [173, undefined],
  modify_ldt: [154, undefined],
  uselib: [134, undefined],
  _sysctl: [156, undefined],
};

const machine = {
  x64: { audit: 0xc000003e, clone: 56, ioctl: 16, socket: 41, personality: 135 },
  arm64: { audit: 0xc00000b7, clone: 220, ioctl: 29, socket: 198, personality: 92 },
};
const clone3 = 435;

const loadWord = 0x20;
const jumpEqual = 0x15;
const jumpAtLeast = 0x35;
const jumpAnyBit = 0x45;
const give = 0x06;

const allow = 0x7fff_0000;
const kill = 0x8000_0000;
const refuse = (errno: number) => 0x0005_0000 | errno;
const notPermitted = refuse(1);
const notKnown = refuse(38);
const noSuchFamily = refuse(97);

const numberAt = 0;
const archAt = 4;
const argument = (index: number) => 16 + index * 8;

/** All CLONE_NEW… flags of `clone`. */
const newNamespaces = 0x7e02_0000;
/** TIOCSTI and TIOCLINUX inject input into a terminal. */
const terminalInjection = [0x5412, 0x541c];
/** Unix, IPv4, IPv6 and netlink. Not AF_VSOCK, which network namespaces do not isolate, nor AF_ALG. */
const families = [1, 2, 10, 16];
/** PER_LINUX, and the value that queries the current personality. */
const personalities = [0, 0xffff_ffff];
/** Numbers from here on are those of the x32 ABI, which numbers the same calls differently. */
const x32 = 0x4000_0000;

type Instruction = [code: number, ifTrue: number, ifFalse: number, value: number];

/** Builds a seccomp program that refuses the system calls that code of a repository never needs. */
export function seccompFilter(arch: FilterArch): Buffer {
  const { audit, clone, ioctl, socket, personality } = machine[arch];
  const column = arch === "x64" ? 0 : 1;
  const numbers = Object.values(denied).flatMap((row) => row[column] ?? []);
  const program: Instruction[] = [
    [loadWord, 0, 0, archAt],
    [jumpEqual, 1, 0, audit],
    [give, 0, 0, kill],
    [loadWord, 0, 0, numberAt],
    [jumpAtLeast, 0, 1, x32],
    [give, 0, 0, notKnown],
    ...numbers.flatMap((number) => when(number, [[give, 0, 0, notPermitted]])),
    // glibc falls back to clone, whose flags a filter can inspect.
    ...when(clone3, [[give, 0, 0, notKnown]]),
    ...when(clone, [
      [loadWord, 0, 0, argument(0)],
      [jumpAnyBit, 0, 1, newNamespaces],
      [give, 0, 0, notPermitted],
      [give, 0, 0, allow],
    ]),
    ...when(ioctl, [[loadWord, 0, 0, argument(1)], ...oneOf(terminalInjection, notPermitted), [give, 0, 0, allow]]),
    ...when(socket, [[loadWord, 0, 0, argument(0)], ...oneOf(families, allow), [give, 0, 0, noSuchFamily]]),
    ...when(personality, [[loadWord, 0, 0, argument(0)], ...oneOf(personalities, allow), [give, 0, 0, notPermitted]]),
    [give, 0, 0, allow],
  ];
  return assemble(program);
}

function when(number: number, body: Instruction[]): Instruction[] {
  return [[jumpEqual, 0, body.length, number], ...body];
}

function oneOf(values: readonly number[], verdict: number): Instruction[] {
  return values.flatMap((value): Instruction[] => [
    [jumpEqual, 0, 1, value],
    [give, 0, 0, verdict],
  ]);
}

function assemble(program: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(program.length * 8);
  for (const [at, [code, ifTrue, ifFalse, value]] of program.entries()) {
    bytes.writeUInt16LE(code, at * 8);
    bytes.writeUInt8(ifTrue, at * 8 + 2);
    bytes.writeUInt8(ifFalse, at * 8 + 3);
    bytes.writeUInt32LE(value >>> 0, at * 8 + 4);
  }
  return bytes;
}
