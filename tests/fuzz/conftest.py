"""Lets the test here import the fuzzer's modules."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
