"""Results of many runs, as values: source of the tables, the JSON and the JUnit file."""

from dataclasses import dataclass

from kvorum.chaos.checker import Verdict
from kvorum.chaos.report.labels import Outcome, outcome_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """One run of one scenario."""

    scenario: str
    verdict: Verdict | None = None
    """None where there is nothing to judge."""
    failures: tuple[str, ...] = ()
    """Expectations of the scenario that the run did not meet, in sentences."""
    could_not_run: str | None = None
    """Why the run did not complete."""
    skipped: str | None = None
    """Why the run was not tried (no Toxiproxy, namespaces not permitted)."""
    seconds: float = 0.0
    """It took, all in all."""
    history: str = ""
    """Path of the history, for the reader of a failure."""
    seed: int | None = None

    @property
    def outcome(self) -> Outcome:
        """The outcome."""
        if self.skipped is not None:
            return Outcome.SKIPPED
        return outcome_of(self.verdict, self.failures, self.could_not_run)

    @property
    def is_success(self) -> bool:
        """Nothing is wrong: it held, or was skipped for a reason."""
        return self.outcome in (Outcome.HELD, Outcome.SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantResult:
    """One known mistake, and whether it was found."""

    name: str
    wrong: str
    """The mistake, in a sentence."""
    caught_by: str | None = None
    """The tool and its finding ("simulation: LogMatching"), None if there is none."""
    seeds: int | None = None
    """Number of seeds, of a simulation."""
    seconds: float | None = None
    """Duration."""
