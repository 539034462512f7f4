// Who is there, logging in and out, and what a stranger is told.
"use strict";

const { client, given, refusal, tell, withToken } = require("./pai");

tell(async () => {
  const ann = client("ann");
  const info = await ann.api.getClusterInfo();
  const login = await ann.authn.basicLogin("ann", given.password);
  const boss = await client("boss").authn.basicLogin();
  const again = withToken("ann", login.token);
  const jobs = await again.job.listJobs();
  const logout = await again.authn.basicLogout();
  return {
    info,
    login,
    boss,
    jobs,
    logout,
    loggedOut: await refusal(again.job.listJobs()),
    wrongPassword: await refusal(ann.authn.basicLogin("ann", "not-the-password")),
    nobody: await refusal(ann.authn.basicLogin("nobody", "not-the-password")),
    strange: await refusal(withToken("ann", "abc").job.listJobs()),
  };
});
