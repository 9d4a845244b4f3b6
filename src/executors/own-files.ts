/** The folder of this program's modules: `src` in a checkout, the compiled modules in an installed package. */
export const sourceFolder = new URL("../", import.meta.url);

/** The folder of this program's package.json. */
export const packageFolder = new URL("../../", import.meta.url);

export const manifestFile = new URL("package.json", packageFolder);

/** The folders with this program's dependencies. In an installation, they contain all packages that were installed with it. */
export const packageFolders: readonly URL[] = [
  new URL("node_modules/", packageFolder),
  ...installedWith(packageFolder),
];

// The outermost folder: package managers that use links keep the real packages inside it.
function installedWith({ href }: URL): URL[] {
  const [above, ...below] = href.split("/node_modules/");
  return below.length > 0 ? [new URL(`${above}/node_modules/`)] : [];
}
