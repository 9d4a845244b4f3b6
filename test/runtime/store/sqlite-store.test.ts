import { openSqliteStore } from "#runtime/store/open-sqlite-store.ts";
import { storeConformance } from "../../support/store-conformance.ts";

storeConformance("a store in memory", () => openSqliteStore(":memory:"));
