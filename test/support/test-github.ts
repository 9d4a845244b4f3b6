import { generateKeyPairSync } from "node:crypto";
import { LocalGitHub, type LocalGitHubOptions } from "#playground/github/local-github.ts";
import type { RequestRecord } from "#playground/github/request-log.ts";
import { AccountChanges } from "./account-changes.ts";

const { privateKey, publicKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});

/** The private key of the app in tests. */
export { privateKey };
export const appId = 7;

export type TestGitHubOptions = Omit<LocalGitHubOptions, "app"> & { app?: Partial<LocalGitHubOptions["app"]> };

/** The playground's GitHub with additions for tests. */
export class TestGitHub extends LocalGitHub {
  readonly accountChanges: AccountChanges = new AccountChanges(this);

  static override async start({ app, ...options }: TestGitHubOptions = {}): Promise<TestGitHub> {
    const github = new TestGitHub({ app: { id: appId, key: publicKey, ...app }, ...options });
    await github.listen();
    return github;
  }

  /** Returns the requests that the playground does not implement, on which a test fails. */
  unknownRequests(): RequestRecord[] {
    return this.requests.filter(({ operation }) => operation === undefined);
  }
}
