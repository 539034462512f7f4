// Tokens of a user and of an application that acts for them.
"use strict";

const { client, ended, refusal, smallJob, tell, withToken } = require("./pai");

tell(async () => {
  const ann = client("ann");
  const made = await ann.token.createApplicationToken();
  const listed = await ann.token.getTokens();
  const mine = listed.tokens.filter((each) => made.token.startsWith(each));
  const application = withToken("ann", made.token);
  await application.job.createJob(smallJob("by-application", ["true"]));
  const job = await ended(application, "ann", "by-application");
  const basic = await fetch(new URL("/rest-server/api/v2/jobs/ann~by-application", process.env.PAI_URI), {
    headers: { Authorization: `Basic ${Buffer.from(`ann:${made.token}`).toString("base64")}` },
  });
  const another = await client("ann").authn.basicLogin();
  return {
    made,
    listed,
    mine,
    state: job.jobStatus.state,
    basic: basic.status,
    noTokens: await refusal(application.token.createApplicationToken()),
    noUsers: await refusal(application.user.deleteUser("bob")),
    foreign: await refusal(client("bob").token.deleteToken(made.token)),
    deleted: await ann.token.deleteToken(mine[0]),
    afterwards: await refusal(application.job.listJobs()),
    deletedLogin: await ann.token.deleteToken(another.token),
    loggedOut: await refusal(withToken("ann", another.token).job.listJobs()),
    left: await ann.token.getTokens(),
  };
});
