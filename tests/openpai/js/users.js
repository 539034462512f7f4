// An admin makes, changes and removes a user; the user changes themselves.
"use strict";

const { client, given, refusal, tell } = require("./pai");

tell(async () => {
  const [ann, boss] = [client("ann"), client("boss")];
  const eve = { username: "eve", password: given.password, email: "eve@example.org", virtualCluster: ["vision"] };
  const created = await boss.user.createUser({ ...eve, extension: { colour: "red" } });
  await boss.user.createUser({ ...eve, username: "dora", email: "dora@example.org" }); // she stays
  const twice = await refusal(boss.user.createUser(eve));
  const fresh = await boss.user.getUser("eve");
  const updated = await boss.user.updateUser({ username: "eve", email: "e@example.org", extension: { size: 3 } });
  const patched = await boss.user.getUser("eve");
  const herself = await client("eve").user.updateUserSelf({ username: "eve", email: "eve@home.example" });
  const added = await boss.user.updateUserGroup("eve", "speech");
  const afterAdding = (await boss.user.getUser("eve")).grouplist;
  const removed = await boss.user.deleteUserGroup("eve", "speech");
  const afterRemoving = (await boss.user.getUser("eve")).grouplist;
  const replaced = await boss.user.updateUserGrouplist("eve", ["default", "speech"]);
  const everyone = await boss.user.getAllUser();
  return {
    created,
    twice,
    fresh,
    updated,
    patched,
    herself,
    added,
    afterAdding,
    removed,
    afterRemoving,
    replaced,
    everyone,
    last: await boss.user.getUser("eve"),
    notAdmin: await refusal(ann.user.createUser({ username: "mallory", password: given.password })),
    notMe: await refusal(ann.user.updateUserSelf({ username: "bob", email: "x@example.org" })),
    noUser: await refusal(boss.user.getUser("nobody")),
    noAdminGone: await refusal(boss.user.deleteUser("boss")),
    deleted: await boss.user.deleteUser("eve"),
    gone: await refusal(boss.user.getUser("eve")),
  };
});
