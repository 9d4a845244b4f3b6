import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { storeModel } from "../../support/store-model.ts";

storeModel("the SQLite store", () => openSqliteStore(":memory:"), 100);
