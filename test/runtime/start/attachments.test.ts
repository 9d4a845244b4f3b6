import { expect, test } from "vitest";
import type { ChatRequest } from "#playground/model/model-server.ts";
import { startAnthropic } from "../../support/anthropic-server.ts";
import { origin, runtimeWorlds, turns } from "../../support/runtime-world.ts";

const world = runtimeWorlds();

const png = Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), Buffer.alloc(100)]);
const anthropicWorker = "---\nname: painter\nmodel: anthropic:claude-sonnet-4-5\n---\nYou look at pictures.";

/** Starts a worker on an issue with these files. Returns the files that it was sent, and the GitHub that has them. */
async function startWith(
  files: Record<string, string | Uint8Array>,
  { worker = "fixer", policy = "", isPrivate = false, script = turns({ text: "Done." }) } = {},
) {
  const anthropic = await startAnthropic({ query: "q", url: "https://example.com", text: "Seen." });
  const made = await world({
    script,
    anthropicUrl: anthropic.url,
    github: {
      private: isPrivate,
      permissions: { visitor: "read" },
      files: { ".github/workers/painter.worker": anthropicWorker.replace("\n---\nYou", `${policy}\n---\nYou`) },
    },
  });
  const visitor = made.github.hub.as("visitor");
  const links = Object.entries(files).map(([name, content]) => visitor.attach(name, content));
  visitor.editThread(origin.thread, { body: `It looks like this: ${links.join("\n")}` });
  await made.runs.startRun({ origin, worker, text: "Look." });
  await made.ended();
  const requests = [...anthropic.requests, ...made.model.requests];
  return { ...made, request: JSON.stringify(requests[0]) };
}

test("images and text files attached to an issue reach a model that can read them, marked as untrusted", async () => {
  const { request } = await startWith({ "screen.png": png, "app.log": "Error: off by one" }, { worker: "painter" });

  expect(request).toContain(png.toString("base64"));
  expect(request).toContain(`screen.png (image/png, ${png.length} bytes)`);
  expect(request).toMatch(/source=\\"the attached file app\.log\\">\\nError: off by one/);
});

test("images are sent to other models, and one that refuses them gets their names from then on", async () => {
  const hasImage = (request: ChatRequest) => JSON.stringify(request).includes(png.toString("base64"));
  const answer = turns({ calls: [{ name: "read_file", args: { path: "package.json" } }] }, { text: "Done." });
  const script = (request: ChatRequest) =>
    hasImage(request) ? { status: 400, message: "image_url is only supported by certain models" } : answer(request);

  const { model } = await startWith({ "screen.png": png }, { script });

  expect(model.requests.map(hasImage)).toEqual([true, false, false]);
  expect(JSON.stringify(model.requests[1])).toContain("The attached file screen.png, image/png, is left out");
});

test.each([
  ["an SVG", { "logo.svg": "<svg onload='x()'/>" }, "logo.svg (not read: it is not an image, a PDF or a text file)"],
  ["HTML as an image", { "a.png": "<html>" }, "a.png (not read: it is not an image, a PDF or a text file)"],
  ["a large file", { "big.log": "x".repeat(3_000_000) }, "big.log (not read: it has more than 2097152 bytes)"],
])("%s is named with the reason, and the run starts all the same", async (_, files, named) => {
  const { request } = await startWith(files);

  expect(request).toContain(named);
});

test("images of a private repository are read from signed addresses, and other files are named", async () => {
  const files = { "screen.png": png, "app.log": "Error: off by one" };

  const { request } = await startWith(files, { worker: "painter", isPrivate: true });

  expect(request).toContain(png.toString("base64"));
  expect(request).toContain("app.log (not read: GitHub shows it only to people who are signed in)");
  expect(request).not.toContain("jwt=");
});

test("the worker's attachment policy decides which files of an issue it gets", async () => {
  const policy = "\nattachment_policy: { denied_suffixes: [png] }";
  const { request } = await startWith({ "screen.png": png }, { worker: "painter", policy });

  expect(request).not.toContain(png.toString("base64"));
  expect(request).toContain("files ending in .png are not allowed");
});

test("files attached to a message reach the run", async () => {
  const made = await world({
    script: turns({ calls: [{ name: "ask_user", args: { question: "Which?" } }] }, { text: "Ok" }),
  });
  await made.runs.startRun({ origin, worker: "fixer", text: "Look." });
  await made.waitUntilShown(({ kind }) => kind === "question");
  const link = made.github.hub.as("ada").attach("notes.txt", "The second one.");

  await made.runs.deliverMessage(origin, { by: "ada", text: `See ${link}`, mayAnswer: false });
  await made.runs.deliverMessage(origin, { by: "ada", text: "B" });
  await made.ended();

  expect(JSON.stringify(made.model.requests.at(-1)?.messages)).toContain("The second one.");
});
