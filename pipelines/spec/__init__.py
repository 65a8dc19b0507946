"""Pipelines as configuration: their files, Connect's configurations, and what is wrong with them, by line.

pipeline = spec.load("orders.yaml")                     # raises SpecError
draft = spec.draft("orders.yaml")                       # right or not, with all that is wrong
"""

from kvorum.pipelines.spec.model import (
    Endpoint,
    Format,
    Parts,
    Pipeline,
    draft,
    from_connect,
    from_data,
    load,
    loads,
)
from kvorum.pipelines.spec.problems import Problem, SpecError

__all__ = [
    "Endpoint", "Format", "Parts", "Pipeline", "Problem", "SpecError", "draft", "from_connect", "from_data",
    "load", "loads",
]  # fmt: skip
