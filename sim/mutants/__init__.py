"""Known protocol mistakes, injected into production code: each must be found by the tests."""
