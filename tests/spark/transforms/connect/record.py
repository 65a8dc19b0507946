"""Ask Connect's own transforms, and write their answers into expected.json beside this file.

    python tests/spark/transforms/connect/record.py JARS

JARS is a folder with connect-transforms, connect-json, connect-api and kafka-clients 4.3.0 and what they need; java
is on the PATH. Answers differ from version to version of Kafka: the version stands in the file. Not part of CI: there,
tests/spark/transforms/test_against_connect.py holds our transforms against what is recorded.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.spark.transforms.cases import CASES, PACKAGE, Case

HERE = Path(__file__).parent
VERSION = "4.3.0"


def question(case: Case) -> dict[str, Any]:
    """Return a case as the Java program reads it."""
    steps = []
    for transform in case.transforms:
        config = {k: v for k, v in transform.items() if k not in ("type", "predicate", "negate")}
        step: dict[str, Any] = {"class": full(str(transform["type"]), PACKAGE), "config": config}
        if "predicate" in transform:
            predicate = dict(case.predicates[transform["predicate"]])
            name = full(str(predicate.pop("type")), f"{PACKAGE}predicates.")
            step |= {"predicate": {"class": name, "config": predicate}, "negate": transform.get("negate", False)}
        steps.append(step)
    return {"name": case.name, "transforms": steps, "records": case.records()}


def full(name: str, package: str) -> str:
    """Return a class's full name."""
    return name if name.startswith(PACKAGE) else package + name


def main(jars: str) -> None:
    """Ask, and write."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "asked.json"), Path(folder, "answered.json")
        asked.write_text(json.dumps([question(case) for case in CASES]))
        command = ["java", "-cp", f"{jars}/*", str(HERE / "ConnectTransforms.java"), str(asked), str(answered)]
        subprocess.run(command, check=True)
        answers = {one.pop("name"): one for one in json.loads(answered.read_text())}
    assert len(answers) == len(CASES), "two cases have the same name"
    text = json.dumps({"kafka": VERSION, "answers": answers}, indent=1, sort_keys=True, ensure_ascii=False)
    (HERE / "expected.json").write_text(text + "\n")
    print(f"{len(answers)} cases, {sum(len(one.get('records', ())) for one in answers.values())} records")


if __name__ == "__main__":
    main(*sys.argv[1:])
