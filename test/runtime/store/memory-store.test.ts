import { MemoryStore } from "#runtime/store/memory/memory-store.ts";
import { storeConformance } from "../../support/store-conformance.ts";
import { storeModel } from "../../support/store-model.ts";

storeConformance("the memory store", async () => new MemoryStore());
storeModel("the memory store", async () => new MemoryStore(), 100);
