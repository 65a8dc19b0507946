"""Pipelines as configuration: their files, Connect's configurations, and what is wrong with them, by line.

pipeline = spec.load("orders.yaml")                     # raises SpecError
pipeline.validate_with({"source.topics": TopicsOptions, ...})
draft = spec.draft("orders.yaml")                       # right or not, with all that is wrong
"""

from kvorum.pipelines.spec.connect import from_connect
from kvorum.pipelines.spec.load import draft, load, loads
from kvorum.pipelines.spec.model import Pipeline, from_data
from kvorum.pipelines.spec.parts import Endpoint, Format, Parts
from kvorum.pipelines.spec.problems import Problem, SpecError

__all__ = [
    "Endpoint",
    "Format",
    "Parts",
    "Pipeline",
    "Problem",
    "SpecError",
    "draft",
    "from_connect",
    "from_data",
    "load",
    "loads",
]
