import type { Toolset } from "#toolsets/toolset.ts";
import { findModule } from "./find-module.ts";
import { CustomToolsetConfig, loadModule } from "./load-custom-tools.ts";

/** Provides a worker's own tools from a `tools.ts` beside it. They can access nothing but the sandbox. */
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
