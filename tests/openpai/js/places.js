// Where jobs run and what they may mount: virtual clusters, SKU types, storages, the cluster behind it.
"use strict";

const { client, ended, fetched, refusal, smallJob, tell } = require("./pai");

tell(async () => {
  const [ann, bob, boss] = [client("ann"), client("bob"), client("boss")];
  await ann.job.createJob(
    smallJob("reads-storage", ["cat /data/hello.txt"], {
      extras: { storages: [{ name: "corpus", mountPath: "/data" }] },
    }),
  );
  const job = await ended(ann, "ann", "reads-storage");
  const logs = await ann.job.getTaskLogs("ann", "reads-storage", 0, "worker", 0, 0);
  return {
    clusters: await ann.virtualCluster.listVirtualClusters(),
    cluster: await ann.virtualCluster.getVirtualCluster("default"),
    noCluster: await refusal(ann.virtualCluster.getVirtualCluster("nowhere")),
    skus: await ann.virtualCluster.getVirtualClusterSkuTypes("default"),
    storages: await ann.storage.getStorages(),
    defaults: await ann.storage.getStorages(true),
    cached: await ann.cache.functions.getStorages(false),
    storage: await ann.storage.getStorage("corpus"),
    noStorage: await refusal(ann.storage.getStorage("nothing")),
    notGranted: await refusal(bob.storage.getStorage("corpus")),
    notMounted: await refusal(
      bob.job.createJob(smallJob("reads-foreign", ["true"], { extras: { storages: [{ name: "corpus" }] } })),
    ),
    job,
    read: (await fetched(logs.locations.find((each) => each.name === "stdout").uri)).text,
    nodes: await boss.kubernetes.getK8sNodes(),
    pods: await boss.kubernetes.getK8sPods({ namespace: "default" }),
    notForAnn: await refusal(ann.kubernetes.getK8sNodes()),
  };
});
