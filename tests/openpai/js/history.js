// A job that fails twice and then goes well: every attempt stays to be read.
"use strict";

const { client, ended, fetched, refusal, smallJob, tell } = require("./pai");

tell(async () => {
  const ann = client("ann");
  const commands = ["echo try $FC_FRAMEWORK_ATTEMPT_ID", "test $FC_FRAMEWORK_ATTEMPT_ID = 2"];
  await ann.job.createJob(smallJob("stubborn", commands, { jobRetryCount: 2 }));
  const job = await ended(ann, "ann", "stubborn");
  const output = async (attempt) => {
    const logs = await ann.job.getTaskLogs("ann", "stubborn", attempt, "worker", 0, 0);
    return (await fetched(logs.locations.find((each) => each.name === "stdout").uri)).text;
  };
  return {
    job,
    first: await ann.job.getJob("ann", "stubborn", 0),
    outputs: [await output(0), await output(1), await output(2)],
    health: await ann.jobHistory.getJobAttemptsHealthz("ann", "stubborn"),
    attempts: await ann.jobHistory.getJobAttempts("ann", "stubborn"),
    second: await ann.jobHistory.getJobAttempt("ann", "stubborn", 1),
    missing: await refusal(ann.jobHistory.getJobAttempt("ann", "stubborn", 9)),
  };
});
