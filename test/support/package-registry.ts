import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { lookup } from "node:dns/promises";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { entry } from "./tar-archive.ts";

export interface PackageRegistry {
  /** If possible not `localhost`, for which Go uses no proxy. */
  host: string;
  /** The certificate that clients have to trust. */
  certificate: string;
  /** The paths that were requested. */
  requests: string[];
  close(): void;
}

const npmManifest = { name: "left-pad", version: "1.0.0", scripts: { postinstall: "echo HOSTILE >&2; exit 1" } };

/** Starts a registry for npm, Python, Go and Cargo with one package each: `left-pad` 1.0.0, whose install script fails. */
export async function startPackageRegistry(): Promise<PackageRegistry> {
  const folder = mkdtempSync(join(tmpdir(), "package-registry-"));
  const [key, certificate] = ["key.pem", "certificate.pem"].map((name) => join(folder, name)) as [string, string];
  const { name, address } = await loopbackName();
  const subject = ["-subj", "/CN=localhost", "-addext", `subjectAltName=DNS:${name}`];
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key];
  // Clients in Rust accept no certificate of an authority from a server.
  const leaf = ["-addext", "basicConstraints=critical,CA:FALSE"];
  execFileSync("openssl", ["req", "-x509", ...newKey, "-out", certificate, "-days", "2", ...subject, ...leaf], {
    stdio: "ignore",
  });
  const files = packages(folder);
  const requests: string[] = [];
  const server = createServer({ key: readFileSync(key), cert: readFileSync(certificate) }, (request, response) => {
    const path = decodeURIComponent((request.url ?? "").split("?")[0] ?? "");
    requests.push(path);
    const found = files(`https://${request.headers.host}`)[path];
    if (found === undefined) response.writeHead(404).end();
    else
      response
        .writeHead(200, { "content-type": path.startsWith("/simple") ? "text/html" : "application/json" })
        .end(found);
  });
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  const { port } = server.address() as { port: number };
  return {
    host: `${name}:${port}`,
    certificate: readFileSync(certificate, "utf8"),
    requests,
    close() {
      server.close();
      rmSync(folder, { recursive: true });
    },
  };
}

function packages(folder: string): (base: string) => Record<string, Buffer | string> {
  const npm = tarball({
    "package/package.json": JSON.stringify(npmManifest),
    "package/index.js": "module.exports = 1;\n",
  });
  const wheel = zip(folder, {
    "left_pad.py": "def pad(): return 'padded'\n",
    "left_pad-1.0.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: left-pad\nVersion: 1.0.0\n",
    "left_pad-1.0.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "left_pad-1.0.0.dist-info/RECORD": "",
  });
  const goMod = "module left.example/pad\n";
  const goZip = zip(folder, {
    "left.example/pad@v1.0.0/go.mod": goMod,
    "left.example/pad@v1.0.0/pad.go": "package pad\n",
  });
  const crate = tarball({
    "left-pad-1.0.0/Cargo.toml": '[package]\nname = "left-pad"\nversion = "1.0.0"\nedition = "2021"\n',
    "left-pad-1.0.0/src/lib.rs": "pub fn pad() {}\n",
    "left-pad-1.0.0/build.rs": 'fn main() { panic!("HOSTILE") }\n',
  });
  const line = { name: "left-pad", vers: "1.0.0", deps: [], features: {}, yanked: false, cksum: sha256(crate) };
  return (base) => {
    const integrity = `sha512-${createHash("sha512").update(npm).digest("base64")}`;
    const dist = { tarball: `${base}/left-pad/-/left-pad-1.0.0.tgz`, integrity };
    const versions = { "1.0.0": { ...npmManifest, hasInstallScript: true, dist } };
    return {
      "/left-pad": JSON.stringify({
        name: "left-pad",
        "dist-tags": { latest: "1.0.0" },
        versions,
        time: { "1.0.0": "2020-01-01T00:00:00.000Z" },
      }),
      "/left-pad/-/left-pad-1.0.0.tgz": npm,
      "/simple/left-pad/": `<a href="/left_pad-1.0.0-py3-none-any.whl#sha256=${sha256(wheel)}">left_pad-1.0.0-py3-none-any.whl</a>`,
      "/left_pad-1.0.0-py3-none-any.whl": wheel,
      "/left.example/pad/@v/list": "v1.0.0\n",
      "/left.example/pad/@v/v1.0.0.info": '{"Version":"v1.0.0","Time":"2020-01-01T00:00:00Z"}',
      "/left.example/pad/@v/v1.0.0.mod": goMod,
      "/left.example/pad/@v/v1.0.0.zip": goZip,
      "/config.json": JSON.stringify({ dl: `${base}/crates/{crate}/{version}` }),
      "/le/ft/left-pad": JSON.stringify(line),
      "/crates/left-pad/1.0.0": crate,
    };
  };
}

function sha256(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}

function tarball(files: Record<string, string>): Buffer {
  const entries = Object.entries(files).map(([name, text]) => entry(name, { text }));
  return gzipSync(Buffer.concat([...entries, Buffer.alloc(1_024)]));
}

function zip(folder: string, files: Record<string, string>): Buffer {
  const path = join(folder, "archive.zip");
  const script = [
    "import json, sys, zipfile",
    "with zipfile.ZipFile(sys.argv[1], 'w') as archive:",
    "    for name, text in json.load(sys.stdin).items(): archive.writestr(name, text)",
  ].join("\n");
  writeFileSync(path, "");
  execFileSync("python3", ["-c", script, path], { input: JSON.stringify(files) });
  return readFileSync(path);
}

async function loopbackName(): Promise<{ name: string; address: string }> {
  for (const name of ["ip6-localhost", hostname(), "localhost"]) {
    const address = await lookup(name).then(
      ({ address }) => address,
      () => "",
    );
    if (address === "::1" || address === "127.0.0.1") return { name, address };
  }
  return { name: "localhost", address: "127.0.0.1" };
}
