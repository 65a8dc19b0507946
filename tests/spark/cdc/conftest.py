"""The PostgreSQL server of the unit tests of change data capture."""

from tests.unit.pipelines.cdc.conftest import database, postgresql

__all__ = ["database", "postgresql"]
