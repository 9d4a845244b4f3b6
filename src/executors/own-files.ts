/** The folder of this program's modules: `src` in a checkout, its compiled twin in an installed package. */
export const sourceFolder = new URL("../", import.meta.url);

/** The folder of this program's package.json. */
export const packageFolder = new URL("../../", import.meta.url);

export const manifestFile = new URL("package.json", packageFolder);

/** Where its imports resolve: its own packages in a checkout, and where it is installed, all packages installed with it. */
export const packageFolders: readonly URL[] = [
  new URL("node_modules/", packageFolder),
  ...installedWith(packageFolder),
];

// The outermost folder: package managers that link packages keep the real ones below it.
function installedWith({ href }: URL): URL[] {
  const [above, ...below] = href.split("/node_modules/");
  return below.length > 0 ? [new URL(`${above}/node_modules/`)] : [];
}
