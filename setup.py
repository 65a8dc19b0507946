"""What pyproject.toml cannot say: KVORUM_COMPILED=1 has the hot modules compiled to C by mypyc; else all is Python.

The same sources, and nothing in them knows of it (docs/decisions/0019).
"""

import os
import sys
from pathlib import Path

from setuptools import setup

HOT = {
    "protocol": "batch_header codec headers record_walk records varints",
    "network": "channel connection context frame limits memory metrics muting outbox request_queue router shared",
    "storage": "admission append_run atomic_append disk_health epoch_cache index local_log log log_durability"
    " log_producers log_types producer_replay producer_state rolling segment segments sync_state tail txn_index"
    " validator",
    "broker": "fetch_session fetch_session_state",
    "broker/api": "fetch produce produce_frames produce_heads produce_lane produce_template",
    "broker/replica": "appends delayed_fetch delayed_produce effects fetch_session_client fetcher fetches figures"
    " follower follower_state health high_watermark hosted isr isr_changes low_watermark manager offsets partition"
    " partition_reads purgatory resting types watchers",
    "runtime": "metrics timers",
}
"""What records pass through; the rest would gain nothing."""
TYPES = Path("build/types")


def extensions() -> list[object]:
    """Return the modules to be compiled. Raises ImportError where a build without isolation has no mypy."""
    from mypyc.build import mypycify
    from mypyc.ir.rtypes import object_rprimitive
    from mypyc.primitives.registry import builtin_names, load_address_op

    if "builtins.memoryview" not in builtin_names:
        # An annotation of a class that names a type unknown to mypyc is looked up in the module, not in builtins.
        load_address_op(name="builtins.memoryview", type=object_rprimitive, src="PyMemoryView_Type")
    TYPES.mkdir(parents=True, exist_ok=True)
    if not (TYPES / "kvorum").is_symlink():
        (TYPES / "kvorum").symlink_to("../..")  # mypy knows kvorum.ROOM by it
    names = [f"{TYPES}/kvorum/{room}/{name}.py" for room, found in HOT.items() for name in found.split()]
    return mypycify(names, opt_level="2", multi_file=True)


IS_COMPILED = os.environ.get("KVORUM_COMPILED") == "1"
IS_BUILD = not {"egg_info", "dist_info"} & set(sys.argv)
if IS_COMPILED and "editable_wheel" in sys.argv:
    sys.exit("KVORUM_COMPILED: an editable installation runs the checkout's Python; `make compiled` compiles beside it")
setup(
    ext_modules=extensions() if IS_COMPILED and IS_BUILD else [], setup_requires=["mypy>=2.4,<3"] if IS_COMPILED else []
)
