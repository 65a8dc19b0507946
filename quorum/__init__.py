"""The metadata quorum: records, image, controller (decides), raft (replicates), loader and publisher."""
