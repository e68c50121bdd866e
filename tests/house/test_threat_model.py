"""Each promise of the threat model names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")


def test_each_promise_names_tests_that_exist() -> None:
    promised = PAGE.split("## Promised")[1].split("\n## ")[0]
    rows = [line.split("|")[1:3] for line in promised.splitlines() if line.startswith("| **")]
    assert len(rows) > 10
    for promise, proof in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", proof)
        assert len(named) == proof.count("`") // 2 > 0, promise
        for file, test in named:
            assert f"def {test or 'test_'}" in (ROOT / file).read_text(encoding="utf-8"), (file, test)
