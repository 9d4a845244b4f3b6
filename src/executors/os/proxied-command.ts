import { guestProxy } from "./bubblewrap.ts";

// Inside, there is no network but a loopback of its own: this carries its one port to the socket the host listens on.
const script = `
const net = require("node:net");
const { spawn } = require("node:child_process");
const server = net.createServer((client) => {
  const host = net.connect("${guestProxy}/proxy.sock");
  client.on("error", () => host.destroy());
  host.on("error", () => client.destroy());
  client.pipe(host).pipe(client);
}).listen(0, "127.0.0.1", () => {
  const proxy = "http://127.0.0.1:" + server.address().port;
  const names = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "npm_config_proxy", "npm_config_https_proxy"];
  const open = { NODE_USE_SYSTEM_CA: "1", npm_config_offline: "false", CARGO_NET_OFFLINE: "false", PIP_NO_INDEX: "0" };
  const env = { ...process.env, ...open, ...Object.fromEntries(names.map((name) => [name, proxy])) };
  const [program, ...args] = process.argv.slice(1);
  const child = spawn(program, args, { stdio: "inherit", env });
  child.on("error", (error) => { console.error(error.message); process.exit(127); });
  child.on("exit", (code, signal) => process.exit(signal ? 137 : code));
});
`;

/** The command, with the registry proxy as its only way out. */
export function proxiedCommand(command: readonly string[]): string[] {
  return ["node", "-e", script, "--", ...command];
}
