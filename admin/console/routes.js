// Which page is at which address.

import * as broker from "./broker.js";
import * as brokers from "./brokers.js";
import * as chaos from "./chaos.js";
import * as chaosRun from "./chaos-run.js";
import * as configsDiff from "./configs-diff.js";
import * as controller from "./controller.js";
import * as explorer from "./explorer.js";
import * as group from "./group.js";
import * as groups from "./groups.js";
import * as job from "./job.js";
import * as jobs from "./jobs.js";
import * as leaders from "./leaders.js";
import * as messages from "./messages.js";
import * as metadata from "./metadata.js";
import * as overview from "./overview.js";
import * as partition from "./partition.js";
import * as partitionChecksums from "./partition-checksums.js";
import * as partitionHistory from "./partition-history.js";
import * as partitionSegments from "./partition-segments.js";
import * as quorum from "./quorum.js";
import * as quotas from "./quotas.js";
import * as reassignment from "./reassignment.js";
import * as record from "./record.js";
import * as segments from "./segments.js";
import * as topic from "./topic.js";
import * as topicAnalysis from "./topic-analysis.js";
import * as topicConsumers from "./topic-consumers.js";
import * as topics from "./topics.js";
import * as transaction from "./transaction.js";
import * as transactions from "./transactions.js";

/** Parts of the navigation, in its order. */
export const GROUPS = ["Cluster", "Data", "Operations", "Tools"];

/**
 * ":x" in a path matches any one part; `name` is the entry in the navigation, `key` its letter after g. Earlier routes
 * take precedence.
 */
export const ROUTES = [
  { path: "", page: overview, name: "Overview", key: "o", group: "Cluster" },
  { path: "brokers", page: brokers, name: "Brokers", key: "b", group: "Cluster" },
  { path: "brokers/:broker", page: broker },
  { path: "brokers/:broker/:tab", page: broker },
  { path: "quorum", page: quorum, name: "Quorum", key: "q", group: "Cluster" },
  { path: "quorum/controllers/:controller", page: controller },
  { path: "metadata", page: metadata, name: "Metadata", key: "m", group: "Cluster" },
  { path: "metadata/:tab", page: metadata },
  { path: "topics", page: topics, name: "Topics", key: "t", group: "Data" },
  { path: "topics/:topic", page: topic },
  { path: "topics/:topic/messages", page: messages },
  { path: "topics/:topic/consumers", page: topicConsumers },
  { path: "topics/:topic/analysis", page: topicAnalysis },
  { path: "topics/:topic/:tab", page: topic },
  { path: "topics/:topic/partitions/:partition", page: partition },
  { path: "topics/:topic/partitions/:partition/segments", page: partitionSegments },
  { path: "topics/:topic/partitions/:partition/history", page: partitionHistory },
  { path: "topics/:topic/partitions/:partition/checksums", page: partitionChecksums },
  { path: "topics/:topic/partitions/:partition/:tab", page: partition },
  { path: "topics/:topic/batches/:partition", page: segments },
  { path: "topics/:topic/records/:partition/:offset", page: record },
  { path: "groups", page: groups, name: "Groups", key: "g", group: "Data" },
  { path: "groups/:group", page: group },
  { path: "transactions", page: transactions, name: "Transactions", key: "x", group: "Data" },
  { path: "transactions/:id", page: transaction },
  { path: "jobs", page: jobs, name: "Connectors", key: "j", group: "Data" },
  { path: "jobs/:connector", page: job },
  { path: "jobs/:connector/:tab", page: job },
  { path: "leaders", page: leaders, name: "Elections", key: "e", group: "Operations" },
  { path: "reassignment", page: reassignment, name: "Reassignment", key: "r", group: "Operations" },
  { path: "quotas", page: quotas, name: "Quotas", key: "u", group: "Operations" },
  { path: "configs", page: configsDiff, name: "Config diff", key: "d", group: "Operations" },
  { path: "chaos", page: chaos, name: "Chaos lab", key: "c", group: "Tools" },
  { path: "chaos/runs/:run", page: chaosRun },
  { path: "api", page: explorer, name: "API", key: "a", group: "Tools" },
];
