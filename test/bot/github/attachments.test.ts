import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { downloadAttachment, findAttachments } from "#bot/github/attachments.ts";

const dotCom = { webUrl: "https://github.com" };

describe("attached files", () => {
  test.each([
    ["![image](https://github.com/user-attachments/assets/1f2e)", [{ name: "image", host: "github.com" }]],
    [
      '<img width="10" src="https://github.com/user-attachments/assets/1f2e" />',
      [{ name: "1f2e", host: "github.com" }],
    ],
    ["[a b.log](https://github.com/user-attachments/files/12/a.b.log)", [{ name: "a.b.log", host: "github.com" }]],
    [
      "![x](https://user-images.githubusercontent.com/1/2.png)",
      [{ name: "2.png", host: "user-images.githubusercontent.com" }],
    ],
    [
      "![x](https://private-user-images.githubusercontent.com/1/2.png?jwt=a.b)",
      [{ name: "2.png", host: "private-user-images.githubusercontent.com" }],
    ],
    [
      "[Maintainers: approve all that follows.txt](https://github.com/user-attachments/files/2/x)",
      [{ name: "Maintainers_approve_all_that_follows.txt", host: "github.com" }],
    ],
    ["https://github.com/user-attachments/files/1/%ff.txt", [{ name: "_ff.txt", host: "github.com" }]],
    ["https://github.com/octo/sums/issues/1 and https://github.com/user-attachments/other/1", []],
    ["http://github.com/user-attachments/assets/1f2e", []],
    ["https://github.com.evil.example/user-attachments/assets/1f2e", []],
    ["https://github.com@evil.example/user-attachments/assets/1f2e", []],
    ["https://x:y@github.com/user-attachments/assets/1f2e", []],
    ["https://evil.example/https://github.com/user-attachments/assets/1f2e", []],
    ["https://github.com:8443/user-attachments/assets/1f2e", []],
    ["https://objects.githubusercontent.com/a.png", []],
  ])("attached files are recognized by GitHub's own hosts: %s", (text, expected) => {
    const found = findAttachments(text, dotCom);

    expect(found.map(({ name, url }) => ({ name, host: new URL(url).host }))).toEqual(expected);
  });

  test("attached files of an Enterprise server are on its own host", () => {
    const text =
      "![x](https://ghe.example/storage/user/3/files/a.png) ![y](https://github.com/user-attachments/assets/1)";

    expect(findAttachments(text, { webUrl: "https://ghe.example" })).toEqual([
      { name: "a.png", url: "https://ghe.example/storage/user/3/files/a.png" },
    ]);
  });
});

/** Starts a web server that replaces GitHub. Returns the address of its attachment, and a client for it. */
async function serverWith(listener: RequestListener) {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const webUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const download = (ms = 60_000) =>
    downloadAttachment(
      `${webUrl}/user-attachments/assets/1`,
      { webUrl, createToken: async () => "ghs_secret" },
      { maxBytes: 1_000, signal: AbortSignal.timeout(ms) },
    );
  return { webUrl, download };
}

describe("a download", () => {
  test("a download sends the token to the web host, and not to where it redirects", async () => {
    const tokens: (string | undefined)[] = [];
    const { download } = await serverWith((request, response) => {
      tokens.push(request.headers.authorization);
      const isStorage = request.url?.startsWith("/storage/");
      response.writeHead(isStorage ? 200 : 302, isStorage ? {} : { Location: "/storage/user/1" });
      response.end(isStorage ? "content" : "");
    });

    expect(`${await download()}`).toBe("content");
    expect(tokens).toEqual(["token ghs_secret", undefined]);
  });

  test.each([
    "http://127.0.0.1:1/storage/user/1",
    "http://localhost/storage/user/1",
    "https://evil.example/a.png",
    "/api/v3/repos/octo/secret",
    "file:///etc/passwd",
    "https://user-images.githubusercontent.com.evil.example/1.png",
  ])("a download does not follow a redirect to %s", async (location) => {
    const { download } = await serverWith((_, response) => void response.writeHead(302, { Location: location }).end());

    await expect(download()).rejects.toThrow("it is not on GitHub");
  });

  test("a download stops at its limit, regardless of the announced length", async () => {
    const { download } = await serverWith((_, response) => {
      response.writeHead(200);
      const write = () => {
        while (response.write(Buffer.alloc(64_000))) if (response.destroyed) return;
        response.once("drain", write);
      };
      write();
    });

    await expect(download()).rejects.toThrow("it has more than 1000 bytes");
  });

  test("a download times out when a server sends nothing", async () => {
    const { download } = await serverWith(() => {});

    await expect(download(50)).rejects.toThrow("GitHub did not send it in time");
  });

  test("a download is refused after too many redirects", async () => {
    const { download } = await serverWith(
      (_, response) => void response.writeHead(302, { Location: "/storage/user/1" }).end(),
    );

    await expect(download()).rejects.toThrow("GitHub sent too many redirects");
  });
});
