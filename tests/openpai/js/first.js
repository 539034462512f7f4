// The client of the first API: jobs as forms, and reading without login.
"use strict";

const { firstClient, tell } = require("./pai");

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// This client throws request-promise's errors; their text holds the server's answer.
async function refusal(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    const body = typeof error.error === "string" ? JSON.parse(error.error) : error.error;
    return { status: error.statusCode, ...body };
  }
}

async function when(ann, name, wanted) {
  for (;;) {
    const job = await ann.job.get("ann", name);
    if (wanted(job.jobStatus.state)) return job;
    await pause(200);
  }
}

const isFinal = (state) => ["SUCCEEDED", "FAILED", "STOPPED"].includes(state);

function formJob(name, command) {
  const role = { name: "main", taskNumber: 1, cpuNumber: 1, memoryMB: 64, gpuNumber: 0, command };
  return { jobName: name, image: "host", jobEnvs: { GREETING: "a b&c" }, taskRoles: [role] };
}

tell(async () => {
  const ann = firstClient("ann");
  const submitted = await ann.job.submit("ann", formJob("by-form", "echo $GREETING"));
  const job = await when(ann, "by-form", isFinal);
  const endless = formJob("form-endless", "sleep 3600");
  endless.taskRoles[0].portList = [{ label: "web", beginAt: 0, portNumber: 1 }];
  await ann.job.submit("ann", endless);
  const running = await when(ann, "form-endless", (state) => state === "RUNNING");
  const executed = await ann.job.execute("ann", "form-endless", "STOP");
  const stopped = await when(ann, "form-endless", isFinal);
  await ann.job.submit("ann", formJob("form-deleted", "sleep 3600"));
  const deleted = await ann.job.delete("ann", "form-deleted");
  const token = await ann.authn.createApplicationToken();
  return {
    info: await ann.config.clusterInfo(),
    authn: await ann.authn.info(),
    submitted,
    job,
    running,
    executed,
    stopped,
    listed: (await ann.job.list("username=ann")).map((each) => each.name),
    all: await ann.job.list(),
    byFramework: await ann.job.getFrameworkInfo("ann", "by-form"),
    config: await ann.job.getConfig("ann", "by-form"),
    ssh: await refusal(ann.job.getSshInfo("ann", "by-form")),
    twice: await refusal(ann.job.submit("ann", formJob("by-form", "true"))),
    wrong: await refusal(ann.job.submit("ann", { ...formJob("wrong", "true"), colour: "red" })),
    missing: await refusal(ann.job.get("ann", "never")),
    token,
    tokens: await ann.authn.getTokens(),
    revoked: await ann.authn.deleteToken(token.token),
    deleted,
    afterDeleting: (await when(ann, "form-deleted", isFinal)).jobStatus.state,
  };
});
