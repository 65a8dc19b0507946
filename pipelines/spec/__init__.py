"""Pipelines as configuration: their files, Connect's configurations, and what is wrong with them, by line.

pipeline = spec.load("orders.yaml")                     # raises SpecError
pipeline.validate_with({"source.topics": TopicsOptions, ...})
"""

from kvorum.pipelines.spec.connect import from_connect
from kvorum.pipelines.spec.load import from_data, load, loads
from kvorum.pipelines.spec.model import Endpoint, Errors, Format, Pipeline, Predicate, Transform, Trigger
from kvorum.pipelines.spec.problems import Place, Problem, SpecError

__all__ = [
    "Endpoint",
    "Errors",
    "Format",
    "Pipeline",
    "Place",
    "Predicate",
    "Problem",
    "SpecError",
    "Transform",
    "Trigger",
    "from_connect",
    "from_data",
    "load",
    "loads",
]
