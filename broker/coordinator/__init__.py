"""The coordinators of groups and transactions, each living on the partitions of an internal topic that are led here."""
