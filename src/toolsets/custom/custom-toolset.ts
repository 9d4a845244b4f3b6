import type { Toolset } from "#toolsets/toolset.ts";
import { findModule } from "./find-module.ts";
import { CustomToolsetConfig, loadModule } from "./load-custom-tools.ts";

/** Tools of a worker's own, from a `tools.ts` beside it, run where they reach nothing but the sandbox. */
export const customToolset: Toolset<CustomToolsetConfig> = {
  name: "custom",
  config: CustomToolsetConfig,
  async create({ module, ...settings }, services) {
    const found = await findModule(module, services);
    services.onClose?.(() => found.release());
    const loaded = await loadModule(found, settings);
    services.onClose?.(() => loaded.close());
    return loaded.tools;
  },
};
