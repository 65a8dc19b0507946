"""The seam to the world: clock, disk, timers, event loop, config, metrics, logs. Imports nothing of ours."""
