"""Connect's transforms as native column expressions: no row leaves the JVM (docs/pipelines/transforms.md).

run = transforms.build(pipeline.transforms, pipeline.predicates)
frame = run(frame)                                              # a record frame, see kvorum.pipelines.frames
"""

from kvorum.pipelines.transforms.build import build, models, wrong_form
from kvorum.pipelines.transforms.values import TransformError

__all__ = ["TransformError", "build", "models", "wrong_form"]
