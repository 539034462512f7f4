// One job from its submission to its log, and what is said about jobs that are not right or not there.
"use strict";

const { client, ended, fetched, refusal, smallJob, tell } = require("./pai");

tell(async () => {
  const ann = client("ann");
  const secretive = smallJob(
    "journey",
    ["echo from <% $parameters.city %>", "echo to stderr >&2", 'test "<% $secrets.word %>" = "a&b"', "exit 7"],
    { parameters: { city: "Bern" }, secrets: { word: "a&b" } },
    { resourcePerInstance: { cpu: 1, memoryMB: 64, gpu: 0, ports: { web: 2 } } },
  );
  const submitted = await ann.job.createJob(secretive);
  const job = await ended(ann, "ann", "journey");
  const logs = await ann.job.getTaskLogs("ann", "journey", 0, "worker", 0, 0);
  const tails = await ann.job.getTaskLogs("ann", "journey", 0, "worker", 0, 0, true);
  const read = async (list, name) => fetched(list.locations.find((each) => each.name === name).uri);
  return {
    submitted,
    job,
    attempt: await ann.job.getJob("ann", "journey", 0),
    config: await ann.job.getJobConfig("ann", "journey"),
    task: await ann.job.getTask("ann", "journey", 0, "worker", 0),
    logs,
    names: logs.locations.map((each) => each.name),
    stdout: await read(logs, "stdout"),
    stderr: await read(logs, "stderr"),
    all: await read(logs, "all"),
    tail: await read(tails, "stdout"),
    events: await ann.job.listEvents("ann", "journey"),
    warnings: await ann.job.listEvents("ann", "journey", { type: "Warning" }),
    twice: await refusal(ann.job.createJob(secretive)),
    wrong: await refusal(ann.job.createJob(smallJob("wrong", ["true"], { jobRetryCount: -1 }))),
    foreign: await refusal(
      ann.job.createJob(smallJob("foreign", ["true"], { defaults: { virtualCluster: "vision" } })),
    ),
    missing: await refusal(ann.job.getJob("ann", "never")),
    missingConfig: await refusal(ann.job.getJobConfig("ann", "never")),
    missingAttempt: await refusal(ann.job.getJob("ann", "journey", 5)),
    missingLog: await refusal(ann.job.getTaskLogs("ann", "journey", 0, "worker", 7, 0)),
  };
});
