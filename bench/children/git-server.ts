import { startGitServer } from "../../test/support/git-server.ts";

// A git server in a separate process, as if on another machine. It exits when its standard input ends.

const server = await startGitServer();
process.stdout.write(`${JSON.stringify({ root: server.root, url: server.url })}\n`);
process.stdin.resume().once("end", () => server.close());
