"""/v1/cluster, brokers, nodes, configs, features, quotas."""
