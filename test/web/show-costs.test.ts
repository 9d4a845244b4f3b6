import { describe, expect, test } from "vitest";
import { sampleUsage } from "../support/store-samples.ts";
import { type WebWorld, webWorlds } from "../support/web-world.ts";

const world = webWorlds();
const day = "2026-11-23";
const hour = Date.parse(day) / 3_600_000;
const query = `from=${day}&to=${day}`;

async function spend({ store, startRun }: WebWorld): Promise<void> {
  const origin = { repositoryId: 11, installationId: 1, owner: "octo", repo: "sums" };
  const spent = [
    sampleUsage({ hour, origin, cost: 1.5 }),
    sampleUsage({ hour, origin, worker: '=HYPERLINK("x"),<b>', cost: 0.25 }),
    sampleUsage({ hour: hour - 24, origin, cost: 8 }),
  ];
  for (const [index, usage] of spent.entries()) {
    const { id } = await startRun(`abc${index}`);
    const run = await store.findRun(id);
    if (!run || run.unreadable) throw new Error("The run cannot be read");
    const { version, snapshot } = run;
    await store.advance({ runId: id, version, consumed: [], seen: 0, snapshot, status: "waiting", effects: [], usage });
  }
}

describe("the page of costs", () => {
  test("the page of costs requires signing in", async () => {
    const made = await world();
    await spend(made);

    for (const path of ["/costs", "/costs.csv"]) {
      const { status, text } = await made.get(path);
      expect(status).toBe(401);
      expect(text).not.toContain("octo");
    }
  });

  test("the page of costs adds up the costs of the days by repository and worker", async () => {
    const made = await world();
    await spend(made);

    const { status, text } = await made.get(`/costs?${query}`, { cookie: made.signedIn("tom").cookie });

    expect(status).toBe(200);
    expect(text).toContain(`$1.75 from ${day} to ${day}.`);
    expect(text).toContain("<td>octo/sums</td><td>$1.75</td>");
    expect(text).toContain("<td>fixer</td><td>$1.50</td>");
    expect(text).toContain("&lt;b&gt;");
    expect(text).toContain(`href="/costs.csv?from=${day}&amp;to=${day}"`);
  });

  test("the page of costs is CSV that no spreadsheet executes", async () => {
    const made = await world();
    await spend(made);

    const { headers, text } = await made.get(`/costs.csv?${query}`, { cookie: made.signedIn("tom").cookie });

    expect(headers.get("content-type")).toBe("text/csv; charset=utf-8");
    expect(headers.get("content-disposition")).toContain(`golem-forge-costs-${day}-${day}.csv`);
    expect(text.split("\r\n")).toEqual([
      "day,repository,worker,runs,model_calls,input_tokens,cached_input_tokens,output_tokens,cost_usd",
      `${day},octo/sums,fixer,1,1,100,50,10,1.5`,
      `${day},octo/sums,"'=HYPERLINK(""x""),<b>",1,1,100,50,10,0.25`,
      "",
    ]);
  });

  test("the page of costs shows a person nothing of private repositories that they cannot read", async () => {
    const made = await world({ github: { private: true } });
    await spend(made);
    const costsOf = async (login: string) => {
      const { cookie } = made.signedIn(login);
      return `${(await made.get(`/costs?${query}`, { cookie })).text}${(await made.get(`/costs.csv?${query}`, { cookie })).text}`;
    };

    expect(await costsOf("tom")).toContain("octo/sums");
    const seen = await costsOf("stranger");
    expect(seen).toContain("$0.00 from");
    expect(seen).not.toContain("octo");
  });

  test("the page of costs asks GitHub for the permission, and shows nothing while GitHub does not answer", async () => {
    const made = await world({ github: { private: true } });
    await spend(made);
    made.outage.active = true;

    const { status, text } = await made.get(`/costs?${query}`, { cookie: made.signedIn("tom").cookie });

    expect(status).toBe(503);
    expect(text).not.toContain("octo/sums");
  });

  test.each([
    ["from=2026-02-30", "is not a valid date"],
    ["from=2026-11-24&to=2026-11-23", "is empty"],
    ["from=2020-01-01&to=2026-11-23", "longer than 366 days"],
  ])("the page of costs refuses %s", async (asked, message) => {
    const made = await world();

    const { status, text } = await made.get(`/costs?${asked}`, { cookie: made.signedIn("tom").cookie });

    expect([status, text.includes(message)]).toEqual([400, true]);
  });
});
