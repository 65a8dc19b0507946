"""Groups of the classic protocol: the members agree on partitions, the coordinator on who is a member."""
