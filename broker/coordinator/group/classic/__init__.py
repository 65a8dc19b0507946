"""Groups of the classic protocol: the members compute the assignment, the coordinator manages the membership."""
