"""MirrorMaker's role: one cluster's topics, configs and groups followed on another (docs/pipelines/mirror.md).

mirror = load("a-to-b.yaml")            # spec: what is mirrored, and how
run(mirror, spark, stop)                # until the event `stop` is set
"""

from kvorum.pipelines.mirror.run import run
from kvorum.pipelines.mirror.spec import MirrorSpec, load

__all__ = ["MirrorSpec", "load", "run"]
