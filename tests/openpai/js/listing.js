// Lists of jobs: filters, order, pages and counts.
"use strict";

const { client, ended, smallJob, tell } = require("./pai");

tell(async () => {
  const [ann, bob] = [client("ann"), client("bob")];
  await ann.job.createJob(smallJob("list-good", ["true"]));
  await ann.job.createJob(smallJob("list-bad", ["false"]));
  await bob.job.createJob(
    smallJob("list-prod", ["true"], { extras: { hivedScheduler: { jobPriorityClass: "prod" } } }),
  );
  await ended(ann, "ann", "list-good");
  await ended(ann, "ann", "list-bad");
  await ended(bob, "bob", "list-prod");
  await bob.job.addTag("bob", "list-prod", "kept");
  const names = async (query) => (await ann.job.listJobs({ keyword: "list-", ...query })).map((job) => job.name);
  return {
    all: await ann.job.listJobs({ keyword: "list-" }),
    newestFirst: await names({}),
    byName: await names({ order: "jobName,ASC" }),
    ofBob: await names({ username: "bob" }),
    ofBoth: await names({ username: "ann,bob", order: "jobName,ASC" }),
    failed: await names({ state: "FAILED" }),
    ended: await names({ state: "FAILED,SUCCEEDED", username: "ann", order: "jobName,ASC" }),
    prod: await names({ jobPriority: "prod" }),
    tagged: await names({ tagsContain: "kept" }),
    untagged: await names({ tagsNotContain: "kept", order: "jobName,ASC" }),
    elsewhere: await names({ vc: "vision" }),
    here: await names({ vc: "default", order: "jobName,ASC" }),
    second: await names({ order: "jobName,ASC", offset: 1, limit: 1 }),
    counted: await ann.job.listJobs({ keyword: "list-", limit: 1, order: "jobName,DESC", withTotalCount: true }),
    onlyCount: await ann.job.listJobs({ keyword: "list-", limit: 0, withTotalCount: true }),
  };
});
