// A job that would go on for an hour is stopped by its owner, and by nobody else.
"use strict";

const { client, ended, refusal, smallJob, tell, when } = require("./pai");

tell(async () => {
  const [ann, bob] = [client("ann"), client("bob")];
  const port = { resourcePerInstance: { cpu: 1, memoryMB: 64, gpu: 0, ports: { web: 1 } } };
  await ann.job.createJob(smallJob("endless", ["echo started", "sleep 3600"], {}, port));
  const running = await when(ann, "ann", "endless", (state) => state === "RUNNING");
  const foreign = await refusal(bob.job.updateJobExecutionType("ann", "endless", "STOP"));
  const stopped = await ann.job.updateJobExecutionType("ann", "endless", "STOP");
  return {
    running,
    foreign,
    stopped,
    end: await ended(ann, "ann", "endless"),
    started: await ann.job.updateJobExecutionType("ann", "endless", "START"),
    afterwards: (await ann.job.getJob("ann", "endless")).jobStatus.state,
    strange: await refusal(ann.job.updateJobExecutionType("ann", "endless", "PAUSE")),
    missing: await refusal(ann.job.updateJobExecutionType("ann", "never", "STOP")),
  };
});
