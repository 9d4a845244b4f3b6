import { createActor } from "xstate";
import { workerMachine } from "../../src/machines/worker-machine.ts";
import { sampleSpec } from "../../test/support/store-samples.ts";
import { collectGarbage } from "../collect-garbage.ts";

// Measures the memory that waiting runs would need as live actors of the worker machine, without their transcripts.

const count = Number(process.argv[2]);
const { mode, limits } = sampleSpec("run").worker;

collectGarbage();
const before = process.memoryUsage().heapUsed;
const actors = Array.from({ length: count }, () => createActor(workerMachine, { input: { mode, limits } }).start());
collectGarbage();
const eachKb = (process.memoryUsage().heapUsed - before) / 1_024 / actors.length;

process.stdout.write(JSON.stringify({ eachKb }));
