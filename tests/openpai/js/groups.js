// An admin makes, changes and removes a group.
"use strict";

const { client, refusal, tell } = require("./pai");

tell(async () => {
  const [ann, boss] = [client("ann"), client("boss")];
  const created = await boss.group.createGroup({
    groupname: "robots",
    description: "arms and legs",
    externalName: "",
    extension: { acls: { admin: false, virtualClusters: ["robots"], storageConfigs: [] }, colour: "green" },
  });
  await boss.group.createGroup({ groupname: "painters", description: "they stay" });
  await boss.user.updateUserGroup("ann", "painters");
  const fresh = await boss.group.getGroup("robots");
  const updated = await boss.group.updateGroup({
    patch: true,
    data: { groupname: "robots", description: "arms", extension: { colour: "blue" } },
  });
  const changed = await boss.group.getGroup("robots");
  await boss.user.updateUserGroup("ann", "robots");
  const members = await boss.group.getGroupMembers("robots");
  await boss.user.deleteUserGroup("ann", "robots");
  const all = await boss.group.getAllGroup();
  const notAdmin = await refusal(ann.group.createGroup({ groupname: "pirates" }));
  return {
    created,
    fresh,
    updated,
    changed,
    members,
    all,
    notAdmin,
    noGroup: await refusal(boss.group.getGroup("nothing")),
    deleted: await boss.group.deleteGroup("robots"),
    gone: await refusal(boss.group.getGroup("robots")),
  };
});
