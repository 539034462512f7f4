// Tags come and go.
"use strict";

const { client, ended, refusal, smallJob, tell } = require("./pai");

tell(async () => {
  const [ann, bob] = [client("ann"), client("bob")];
  await ann.job.createJob(smallJob("tagged", ["true"]));
  await ended(ann, "ann", "tagged");
  const added = await ann.job.addTag("ann", "tagged", "first");
  await ann.job.addTag("ann", "tagged", "second");
  const both = (await ann.job.getJob("ann", "tagged")).tags;
  const deleted = await ann.job.deleteTag("ann", "tagged", "first");
  return {
    added,
    both,
    deleted,
    left: (await ann.job.getJob("ann", "tagged")).tags,
    missing: await refusal(ann.job.deleteTag("ann", "tagged", "first")),
    foreign: await refusal(bob.job.addTag("ann", "tagged", "mine")),
    comma: await refusal(ann.job.addTag("ann", "tagged", "a,b")),
  };
});
