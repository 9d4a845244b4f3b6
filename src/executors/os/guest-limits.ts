/** What one command may use, and what happens past it: the whole process tree ends. */
export interface GuestLimits {
  /** Of all processes together; each alone has it as RLIMIT_DATA. */
  memoryMb: number;
  processes: number;
  openFiles: number;
  /** Of the tree and the home folder together. */
  diskMb: number;
  diskFiles: number;
  /** Files that differ after a command, ignored ones not counted. Past it nothing of the command is taken over. */
  changedFiles: number;
  /** Of /tmp; /dev/shm has a quarter of it. */
  temporaryMb: number;
  /** Bytes of output, kept or not. */
  outputBytes: number;
}

export const defaultGuestLimits: GuestLimits = {
  memoryMb: 2_048,
  processes: 256,
  openFiles: 4_096,
  diskMb: 2_048,
  diskFiles: 400_000,
  changedFiles: 10_000,
  temporaryMb: 256,
  outputBytes: 64_000_000,
};
