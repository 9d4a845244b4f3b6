import { afterAll, beforeAll, expect, test } from "vitest";
import { commitTo, PlaygroundWorld } from "../support/playground-world.ts";
import { missingFields } from "../support/webhook-examples.ts";

let world: PlaygroundWorld;
beforeAll(async () => {
  world = await PlaygroundWorld.start();
});
afterAll(() => world.close());

test("every webhook has the fields of the examples that GitHub has published", async () => {
  await emitEverything();
  await world.github.deliveriesSettled();

  const problems = world.received.flatMap(({ headers, payload }) => {
    const event = String(headers["x-github-event"]);
    return missingFields(event, payload.action, payload).map((problem) => `${event}.${payload.action} ${problem}`);
  });

  expect(new Set(problems)).toEqual(new Set());
  expect(new Set(world.events)).toEqual(new Set(emitted));
});

const emitted = [
  ...["check_run.completed", "check_run.created", "check_suite.completed"],
  ...["installation.suspend", "installation_repositories.removed"],
  ...["issue_comment.created", "issue_comment.deleted", "issue_comment.edited"],
  ...["issues.closed", "issues.edited", "issues.labeled", "issues.opened", "issues.reopened", "issues.unlabeled"],
  ...["pull_request.closed", "pull_request.converted_to_draft", "pull_request.labeled", "pull_request.opened"],
  ...["pull_request.ready_for_review", "pull_request.reopened", "pull_request.review_requested"],
  ...["pull_request.synchronize", "pull_request_review.dismissed", "pull_request_review.submitted"],
  ...["pull_request_review_comment.created", "pull_request_review_thread.resolved"],
  ...["pull_request_review_thread.unresolved", "push", "repository.renamed", "status"],
  ...["workflow_run.completed", "workflow_run.requested"],
];

async function emitEverything(): Promise<void> {
  const { github } = world;
  const [visitor, contributor, maintainer] = ["visitor", "contributor", "maintainer"].map((login) => github.as(login));
  if (!visitor || !contributor || !maintainer) throw new Error("unreachable: three logins, three people");

  const { number } = visitor.openIssue({ title: "Broken", body: "It is broken" });
  visitor.editThread(number, { title: "Very broken" });
  const comment = visitor.comment(number, "Hello");
  visitor.editComment(comment.id, "Hello there");
  maintainer.deleteComment(comment.id);
  maintainer.label(number, "bug");
  maintainer.unlabel(number, "bug");
  maintainer.close(number);
  maintainer.reopen(number);

  await commitTo(github, "work", { "a.txt": "1\n" });
  const pull = await contributor.openPullRequest({ title: "Work", head: "work", base: "main", draft: true });
  await commitTo(github, "work", { "b.txt": "1\n" });
  contributor.markReady(pull.number);
  contributor.convertToDraft(pull.number);
  contributor.markReady(pull.number);
  contributor.close(pull.number);
  contributor.reopen(pull.number);
  maintainer.label(pull.number, "bug");
  contributor.requestReview(pull.number, "maintainer");
  const remark = await maintainer.reviewComment(pull.number, { path: "a.txt", line: 1, body: "Why?" });
  maintainer.resolve(remark.id);
  maintainer.resolve(remark.id, false);
  const review = await maintainer.review(pull.number, { event: "REQUEST_CHANGES", body: "No" });
  maintainer.dismissReview(review.id, "Yes");

  const ci = await github.checks("work");
  const workflow = ci.startWorkflow("CI");
  ci.report("test", { conclusion: "success" });
  ci.completeWorkflow(workflow);
  ci.setStatus("deploy", "success");
  await maintainer.merge(pull.number);

  github.accountChanges.rename(github.repository(), "store");
  github.accountChanges.removeRepository(github.repository());
  github.accountChanges.suspend();
}
