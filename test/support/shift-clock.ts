// Loaded before the app: each SIGUSR2 sets the process's clock forward or back by CLOCK_JUMP_MS, in turns.

const jumpMs = Number(process.env.CLOCK_JUMP_MS);
const RealDate = Date;
let offsetMs = 0;

process.on("SIGUSR2", () => {
  offsetMs = offsetMs === jumpMs ? -jumpMs : jumpMs;
});
globalThis.Date = class extends RealDate {
  constructor(...given: unknown[]) {
    super(...((given.length === 0 ? [RealDate.now() + offsetMs] : given) as [number]));
  }

  static override now(): number {
    return RealDate.now() + offsetMs;
  }
} as DateConstructor;
