import { startGitServer } from "../../test/support/git-server.ts";

// A git server in a process of its own, as it would be on another machine. It ends with its standard input.

const server = await startGitServer();
process.stdout.write(`${JSON.stringify({ root: server.root, url: server.url })}\n`);
process.stdin.resume().once("end", () => server.close());
