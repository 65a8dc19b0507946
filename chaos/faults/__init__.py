"""Faults on real processes: links, processes, disks, clocks, and the injectors behind them."""
