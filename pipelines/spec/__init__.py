"""Pipelines as configuration: their files, Connect's configurations, and what is wrong with them, by line.

pipeline = spec.load("orders.yaml")                     # raises SpecError
pipeline.validate_with({"source.topics": TopicsOptions, ...})
draft = spec.draft("orders.yaml")                       # right or not, with all that is wrong
"""

from kvorum.pipelines.spec.connect import from_connect
from kvorum.pipelines.spec.load import Draft, draft, load, loads
from kvorum.pipelines.spec.model import Errors, Pipeline, Trigger, from_data
from kvorum.pipelines.spec.parts import Endpoint, Format, Parts, Predicate, Transform
from kvorum.pipelines.spec.problems import Place, Problem, SpecError

__all__ = [
    "Draft",
    "Endpoint",
    "Errors",
    "Format",
    "Parts",
    "Pipeline",
    "Place",
    "Predicate",
    "Problem",
    "SpecError",
    "Transform",
    "Trigger",
    "draft",
    "from_connect",
    "from_data",
    "load",
    "loads",
]
