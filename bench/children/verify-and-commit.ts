import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { DatabaseSync } from "node:sqlite";

// A server that only verifies the signature and commits the body. Deliveries of one turn of the event loop share a commit.

const [path = "", secret = ""] = process.argv.slice(2);
const database = new DatabaseSync(path);
database.exec(
  "pragma journal_mode = wal; pragma synchronous = full; create table deliveries (id text primary key, body text)",
);
const insert = database.prepare("insert into deliveries values (?, ?) on conflict do nothing");
let answers: (() => void)[] | undefined;

function store(id: string, body: string, answer: () => void): void {
  if (!answers) {
    answers = [];
    database.exec("begin immediate");
    setImmediate(() => {
      const stored = answers ?? [];
      answers = undefined;
      database.exec("commit");
      for (const send of stored) send();
    });
  }
  insert.run(id, body);
  answers.push(answer);
}

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.concat(chunks);
    const expected = Buffer.from(`sha256=${createHmac("sha256", secret).update(body).digest("hex")}`);
    const given = Buffer.from(String(request.headers["x-hub-signature-256"]));
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return response.writeHead(401).end();
    return store(String(request.headers["x-github-delivery"]), body.toString("utf8"), () => response.end("ok"));
  });
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}/\n`);
});
