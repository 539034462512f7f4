// What the scripts here share: clients of OpenPAI's own SDK, its errors as data, and waiting for a job.
"use strict";

const { PAIV1, PAIV2 } = require("@microsoft/openpai-js-sdk");

const uri = process.env.PAI_URI;
const given = JSON.parse(process.env.GIVEN);

// Each logs in by itself when it first asks for something.
const client = (username, password = given.password) =>
  new PAIV2.OpenPAIClient({ pai_uri: uri, username, password });
const withToken = (username, token) => new PAIV2.OpenPAIClient({ pai_uri: uri, username, token });
const firstClient = (username, password = given.password) =>
  new PAIV1.OpenPAIClient({ pai_uri: uri, username, password });

// What a promise is refused with; null when it is not.
async function refusal(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    const data = error.data || {};
    return { type: error.constructor.name, status: error.status, code: data.code, message: error.message };
  }
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// The job once `wanted` says yes to its state; as often as a patient client asks.
async function when(pai, user, name, wanted) {
  for (;;) {
    const job = await pai.job.getJob(user, name);
    if (wanted(job.jobStatus.state)) return job;
    await pause(200);
  }
}

const isFinal = (state) => ["SUCCEEDED", "FAILED", "STOPPED"].includes(state);
const ended = (pai, user, name) => when(pai, user, name, isFinal);

// A small job of one role, as SDK users write it: an object that becomes YAML.
function smallJob(name, commands, more = {}, role = {}) {
  return {
    protocolVersion: 2,
    name,
    type: "job",
    prerequisites: [{ name: "image", type: "dockerimage", uri: "host" }],
    taskRoles: {
      worker: {
        instances: 1,
        dockerImage: "image",
        resourcePerInstance: { cpu: 1, memoryMB: 64, gpu: 0 },
        commands,
        ...role,
      },
    },
    ...more,
  };
}

async function fetched(address) {
  const reply = await fetch(new URL(address, uri));
  return { status: reply.status, text: await reply.text(), type: reply.headers.get("content-type") };
}

// Runs `story` and prints what it returns.
function tell(story) {
  story().then(
    (found) => console.log(JSON.stringify(found)),
    (error) => {
      console.error(error.stack, error.data);
      process.exit(1);
    },
  );
}

module.exports = { client, ended, fetched, firstClient, given, refusal, smallJob, tell, uri, when, withToken };
