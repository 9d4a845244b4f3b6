import { describe, expect, test } from "vitest";
import { createRedactor, redactDeep } from "#text/redact.ts";

const removed = "[secret removed]";
const secret = "s3cret/Ütter+ly=hidden?";

describe("known secret is removed", () => {
  const redact = createRedactor([secret]);
  const bytes = Buffer.from(secret);

  test.each([
    ["as it is", secret],
    ["reversed", [...secret].reverse().join("")],
    ["in a URL", encodeURIComponent(secret)],
    ["in hex", bytes.toString("hex")],
    ["in capital hex", bytes.toString("hex").toUpperCase()],
    ["in base64", bytes.toString("base64").replace(/=+$/, "")],
    ["in base64url", bytes.toString("base64url")],
  ])("%s", (_, written) => {
    const text = redact(`before ${written} after ${written}`);

    expect(text).not.toContain(written.slice(2, -2));
    expect(text).toMatch(/^before .*\[secret removed\].* after .*\[secret removed\]/);
  });

  test.each([0, 1, 2])("a known secret is removed in base64 after %i other bytes", (count) => {
    const written = Buffer.concat([Buffer.alloc(count, "x"), bytes, Buffer.from("yyy")]).toString("base64");

    expect(redact(written)).toContain(removed);
    expect(Buffer.from(redact(written), "base64").toString()).not.toContain("s3cret");
  });

  test("a known secret is removed in JSON", () => {
    const quoted = 'pass"word\\with\tescapes';

    expect(createRedactor([quoted])(JSON.stringify({ quoted }))).toBe(`{"quoted":"${removed}"}`);
  });

  test("a known secret is removed with hidden characters inside, and other texts keep theirs", () => {
    expect(redact([...secret].join("\u200B"))).toBe(removed);
    expect(redact("a\u200Bb")).toBe("a\u200Bb");
  });

  test("whatever characters it has", () => {
    const special = "a.b*c+d?e(f)[g]{h}|i^j$k\\l";

    expect(createRedactor([special])(`${special} aXb*c+d`)).toBe(`${removed} aXb*c+d`);
  });

  test("together with what a longer secret adds to it", () => {
    expect(createRedactor(["password", "password-of-ada"])("password-of-ada password")).toBe(`${removed} ${removed}`);
  });

  test("unless it is too short to be one", () => {
    expect(createRedactor(["none", "1234567"])("none 1234567 6e6f6e65")).toBe("none 1234567 6e6f6e65");
    expect(createRedactor(["12345678"])("12345678")).toBe(removed);
    expect(createRedactor([])("none")).toBe("none");
  });

  test("each line of a known key is removed, and so are its lines joined", () => {
    const lines = ["MIIEowIBAAKCAQEA1234", "abcdefghijklmnopqrst", "short"];
    const key = `-----BEGIN KEY-----\n${lines.join("\n")}\n-----END KEY-----`;
    const redactKey = createRedactor([key]);

    expect(redactKey(`${lines[0]} ${lines[1]} short`)).toBe(`${removed} ${removed} short`);
    expect(redactKey(`${lines[0]}${lines[1]}`)).toBe(removed);
    expect(redactKey("-----BEGIN KEY-----")).toBe("-----BEGIN KEY-----");
  });

  test("a line of a known key is removed if it has at least 16 characters", () => {
    const redactKey = createRedactor(["a1b2c3d4e5f6g7h8\ni9j0k1l2m3n4o5p"]);

    expect(redactKey("a1b2c3d4e5f6g7h8 i9j0k1l2m3n4o5p")).toBe(`${removed} i9j0k1l2m3n4o5p`);
  });

  test("a known secret is removed without the blanks around it", () => {
    expect(createRedactor([" a-secret-value\n"])("x a-secret-value y")).toBe(`x ${removed} y`);
  });

  test.each([0, 1, 2])("a known secret is removed in base64url after %i other bytes", (count) => {
    const odd = "key>>>???~~~>>>???";
    const written = Buffer.from(`${"x".repeat(count)}${odd}yyy`).toString("base64url");

    expect(written).toMatch(/[_-]/);
    expect(createRedactor([odd])(written)).toContain(removed);
  });
});

describe("token of a known form", () => {
  const redact = createRedactor([]);

  test.each([
    `ghp_${"a".repeat(36)}`,
    `gho_${"a1".repeat(10)}`,
    `ghs_12345_eyJhbGciOi.eyJpc3MiOj.${"x".repeat(20)}`,
    Buffer.from(`x-access-token:ghs_12345_eyJhbGciOi.eyJpc3MiOj.${"x".repeat(20)}`).toString("base64"),
    `github_pat_${"a".repeat(22)}`,
    `sk-ant-${"a".repeat(12)}`,
    `sk-proj-${"a".repeat(12)}`,
    `sk-${"a1".repeat(12)}`,
    `xoxb-${"1".repeat(12)}`,
    `xapp-${"1".repeat(12)}`,
    `glpat-${"a".repeat(20)}`,
    `npm_${"a".repeat(36)}`,
    `AKIA${"A".repeat(16)}`,
    `ASIA${"A".repeat(16)}`,
    `AIza${"a".repeat(35)}`,
    `ya29.${"a".repeat(24)}`,
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "eyJhbGciOiJ.eyJzdWIiOiI.c2ln",
  ])("a token of a known form is removed: %s", (token) => {
    expect(redact(`x: ${token}\n${token}`)).toBe(`x: ${removed}\n${removed}`);
    expect(redact(`\\n${token}`)).toBe(`\\n${removed}`);
  });

  test("a token of a known form is removed from a URL, without the host", () => {
    expect(redact("https://ada:pass@example.com/a")).toBe(`https://${removed}@example.com/a`);
    expect(redact("https://example.com/a:b@c")).toBe("https://example.com/a:b@c");
  });

  test.each([
    "task-list-of-the-whole-project",
    "eyJhbGciOiJIUzI1",
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIx",
    "eyJ.eyJ.eyJ",
    "eyJhbGciOi.eyJzdWIiOiI.c2ln",
    "eyJhbGciOiJIUzI1.c2lnbmF0dXJl.eyJzdWIiOiIx",
    "c2lnbmF0dXJl.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "a.b.c",
    "ghp_short",
    "npm_install",
  ])("a token of a known form is not seen in %s", (text) => {
    expect(redact(text)).toBe(text);
  });

  test("a token of a known form is removed among other parts with dots, which stay", () => {
    const token = "eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2lnbmF0dXJl";

    expect(redact(`a.b.${token}.d`)).toBe(`a.b.${removed}.d`);
    expect(redact(`a.xx${token}`)).toBe(`a.xx${removed}`);
  });

  const part = "kR7aQ2mZx9".repeat(4);
  const long = `ghs_12345_eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJhIn0${part}.${part.repeat(8)}`;
  const inBase64 = Buffer.from(`x-access-token:${long}`).toString("base64");

  test.each([
    ["\n", 76],
    ["\r\n", 64],
    ["=\r\n", 75],
    ["\n  ", 78],
    ["\n> ", 72],
    ["\n+", 76],
    ["\\\n  ", 70],
    ["\\n", 76],
    ["\\r\\n", 20],
    ["\n", 7],
  ])("a token of a known form is removed where its lines end with %j after %i characters", (end, columns) => {
    // The first line may have other text before it. A last line that is shorter than 20 characters stays.
    const wrap = (text: string, first: number) => {
      const lines = [text.slice(0, first), ...(text.slice(first).match(/.{1,76}/g) ?? [])];
      const last = lines.at(-1) ?? "";
      return { text: lines.join(end), rest: last.length < 20 ? `${end}${last}` : "" };
    };
    const [plain, encoded] = [wrap(long, columns), wrap(inBase64, columns + 20)];

    expect(redact(`before ${plain.text}\nafter that`)).toBe(`before ${removed}${plain.rest}\nafter that`);
    // Base64 may end with an equals sign.
    expect(redact(`"${encoded.text}"`)).toBe(`"${removed}${encoded.rest.replace(/^=/, "")}"`);
  });

  test.each([
    ["a name in capitals", long, "GOLEM_FORGE_WRITE_INTERVAL_MS=0"],
    ["a name in small letters", long.slice(0, 150), "test_that_the_token_is_removed.py"],
    ["a class", long.slice(0, 150), "AbstractWidgetFactoryProvider"],
    ["a class", `ghp_1${"a1B".repeat(12).slice(1)}`, "AbstractWidgetFactoryProvider"],
    [
      "a class",
      Buffer.from(`x-access-token:ghp_${"a1B".repeat(12)}`).toString("base64"),
      "AbstractWidgetFactoryProvider",
    ],
    ["words", long.slice(0, 76), "Some words that follow a token"],
    ["a short line", long.slice(0, 76), "a1B2c3D4e5F6g7H8i9J"],
  ])("a token of a known form is removed without %s in the next line", (_, token, next) => {
    expect(redact(`${token}\n${next}\n`)).toBe(`${removed}\n${next}\n`);
  });

  const body = ["MIIEowIBAAKCAQEA", "abc+/=", ""].join("\n");

  test.each([
    ["a private key", `-----BEGIN RSA PRIVATE KEY-----\n${body}-----END RSA PRIVATE KEY-----`],
    [
      "an encrypted one",
      `-----BEGIN PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\n${body}-----END PRIVATE KEY-----`,
    ],
    ["one in a diff", `-----BEGIN PRIVATE KEY-----\n${body.replace(/^/gm, "+")}\n+-----END PRIVATE KEY-----`],
    ["one without an end", `-----BEGIN OPENSSH PRIVATE KEY-----\n${body}`],
    ["one in a string", "-----BEGIN PRIVATE KEY-----\\nMIIEow\\n-----END PRIVATE KEY-----"],
  ])("a token of a known form may be %s", (_, key) => {
    expect(redact(`before\n${key}`)).toBe(`before\n${removed}`);
  });
});

test("every text of a value is redacted: members, items and the names of members", () => {
  const redact = (text: string) => text.replaceAll("hush", "***");

  expect(redactDeep({ hush: ["hush", { a: "a hush" }], n: 1, none: null, yes: true }, redact)).toEqual({
    "***": ["***", { a: "a ***" }],
    n: 1,
    none: null,
    yes: true,
  });
  expect(redactDeep("hush", redact)).toBe("***");
});
