"""Levels of features change in simulated clusters while groups and transactions go on."""

from random import Random

import msgspec
import pytest

from kvorum.quorum.image.features import GROUP_VERSION, TRANSACTION_VERSION
from sim.draw import draw_plan
from sim.levels import KIND, add_feature_levels
from sim.mutants.plans import COORDINATED, coordination
from sim.plan import Fault, Plan, draw_options, from_json, to_json
from sim.run import run_plan


def test_some_seeds_with_coordinators_have_them_and_the_others_are_unchanged() -> None:
    plans = [(draw_plan(seed), draw_plan(seed, levels=False)) for seed in range(150)]
    having = [plan for plan, plain in plans if plan != plain]
    assert 8 < len(having) < 50
    for plan, plain in plans:
        assert [fault for fault in plan.faults if fault.kind != KIND] == plain.faults
        if plan == plain and plan.options.coordination is not None:
            assert not plan.options.coordination.heeds_levels
    for plan in having:
        assert plan.options.coordination is not None and plan.options.coordination.heeds_levels
        assert from_json(to_json(plan)) == plan
    requested = {(fault.target, fault.detail) for plan in having for fault in plan.faults if fault.kind == KIND}
    assert requested == {
        *((TRANSACTION_VERSION, level) for level in "012"),
        *((GROUP_VERSION, level) for level in "01"),
    }
    without = draw_options(Random(1))
    assert add_feature_levels(Random(1), without, [], 60.0, certain=True) == (without, [])


@pytest.mark.parametrize("consumer_protocol", [False, True], ids=["classic", "consumer"])
def test_transactions_and_groups_continue_through_levels_that_go_down_and_up(consumer_protocol: bool) -> None:
    """With the controller killed right after a level was asked for. The checker judges (sim.run)."""
    options = msgspec.structs.replace(
        draw_options(Random(4)),
        **COORDINATED,
        coordination=coordination(consumer_protocol=consumer_protocol, watchers=1, heeds_levels=True),
    )
    options = msgspec.structs.replace(options, fault_kinds=[KIND, "kill"])
    faults = [
        Fault(at=2.0, kind=KIND, target=TRANSACTION_VERSION, detail="1"),
        Fault(at=2.01, kind="kill", target="active", role="controller", length=1.0),
        Fault(at=4.0, kind=KIND, target=TRANSACTION_VERSION, detail="2"),
        Fault(at=5.0, kind=KIND, target=GROUP_VERSION, detail="0"),
        Fault(at=5.01, kind="kill", target="active", role="controller", length=1.0),
        Fault(at=6.0, kind=KIND, target=TRANSACTION_VERSION, detail="0"),
        Fault(at=7.0, kind=KIND, target=GROUP_VERSION, detail="1"),
        Fault(at=8.0, kind=KIND, target=TRANSACTION_VERSION, detail="2"),
    ]
    outcome = run_plan(Plan(seed=4, seconds=10.0, options=options, faults=faults))
    assert outcome.kind is None, outcome.message
    answers = [text for _, text in outcome.lines if text.startswith("the operator's")]
    assert len(answers) == 6 and all(text.endswith("NONE") for text in answers), answers
    assert outcome.counts["txn ok"] > 40, outcome.counts
