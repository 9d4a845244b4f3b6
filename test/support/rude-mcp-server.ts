import { createInterface } from "node:readline";

/**
 * An MCP server over stdio with tools that are named for their misbehavior. It implements the protocol by hand, since an
 * SDK would not write invalid messages.
 */
const tools = [
  ...[
    "echo",
    "noise",
    "number",
    "null",
    "twice",
    "unknown_id",
    "late",
    "malformed",
    "no_error",
    "batch",
    "die",
    "many_values",
    "many_lines",
    "many_messages",
    "a.b",
    "a_b",
  ],
].map((name) => ({ name, description: `It does ${name}.`, inputSchema: { type: "object", properties: {} } }));

const write = (message: unknown) => process.stdout.write(`${JSON.stringify(message)}\n`);
const answer = (id: unknown, text: string) => ({
  jsonrpc: "2.0",
  id,
  result: { content: [{ type: "text", text }] },
});

const behaviors: Record<string, (id: number) => void> = {
  noise: (id) => {
    process.stdout.write("debug: about to answer\n");
    write(answer(id, "noise"));
  },
  number: (id) => {
    write(42);
    write(answer(id, "number"));
  },
  null: (id) => {
    write(null);
    write(answer(id, "null"));
  },
  twice: (id) => {
    write(answer(id, "once"));
    write(answer(id, "twice"));
  },
  unknown_id: (id) => {
    write(answer(9_999, "to nobody"));
    write(answer(id, "unknown"));
  },
  late: (id) => {
    setTimeout(() => write(answer(id, "too late")), 1_500);
  },
  malformed: (id) => write({ jsonrpc: "2.0", id, outcome: "fine" }),
  no_error: (id) => write({ jsonrpc: "2.0", id, error: null }),
  batch: (id) => write([answer(id, "batch")]),
  many_values: (id) => write({ ...answer(id, "values"), more: Array(350_000).fill([]) }),
  many_lines: (id) => {
    process.stdout.write("[]\n".repeat(100_000));
    write(answer(id, "many lines"));
  },
  many_messages: (id) => {
    write(Array(40_000).fill(null));
    write(answer(id, "many messages"));
  },
  die: () => {
    process.stderr.write("cannot open the database\n");
    process.exit(3);
  },
};

if (process.argv.includes("--banner")) process.stdout.write("Welcome to the rude server v1.0!\n\n");
if (process.argv.includes("--fail")) {
  process.stderr.write("the license has expired\n");
  process.exit(1);
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (method === "initialize") {
    const serverInfo = { name: "rude", version: "1.0.0" };
    write({ jsonrpc: "2.0", id, result: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") write({ jsonrpc: "2.0", id, result: { tools } });
  else if (method === "tools/call") (behaviors[params.name] ?? (() => write(answer(id, params.name))))(id);
  else write({ jsonrpc: "2.0", id, error: { code: -32_601, message: "Method not found" } });
});
