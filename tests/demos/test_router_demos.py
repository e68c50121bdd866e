"""Lesson 14: the desk's tickets, its pictures, the parts that stand in, and the server that reads a release."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from autograde.source import paths
from tests.support.demonstrations import demonstrated
from tools import tickets
from torchcourse.data import desk
from torchcourse.demos import desk_charts, router_parts, serve
from torchcourse.model.catalogue import exercises

TEXTS = ["the card was charged twice", "the app crashes", "no login", "the app shows error 503 again and again"]
CONFIG = {"classes": ["account", "billing", "technical"], "max_len": 8, "threshold": 0.99}


# --- the tickets -------------------------------------------------------------------------------------------------


def test_the_desks_tickets_are_those_the_script_writes(tmp_path: Path) -> None:
    tickets.write(tmp_path / "again.csv", tickets.desk_tickets())
    assert (tmp_path / "again.csv").read_bytes() == Path(desk.__file__).with_name("desk_tickets.csv").read_bytes()
    with (tmp_path / "again.csv").open(encoding="utf-8", newline="") as file:
        assert [(row["text"], row["label"]) for row in csv.DictReader(file)] == desk.load()


def test_the_desks_tickets_are_as_hard_as_the_lesson_says() -> None:
    rows = desk.load()
    counts = Counter(label for _, label in rows)
    assert counts["billing"] / counts["account"] == pytest.approx(6, rel=0.15)
    assert counts["technical"] / counts["account"] == pytest.approx(3, rel=0.15)
    labels: dict[str, set[str]] = {}
    for text, label in rows:
        labels.setdefault(" ".join(text.lower().split()), set()).add(label)
    assert len(labels) < len(rows) - 50  # copies
    assert sum(len(given) > 1 for given in labels.values()) >= 30  # contradictions
    assert "" in labels and max(len(text.split()) for text, _ in rows) > router_parts.MAX_LEN


# --- the pictures ------------------------------------------------------------------------------------------------


def test_tickets_are_counted_by_class() -> None:
    picture = desk_charts.lengths([("one two", "b"), ("word " * 70, "a"), ("three", "a")])
    assert picture.alt == "Tickets by number of words, 60 or more in one bar. a 2, b 1."
    assert picture.png


def test_a_training_log_is_told_by_its_last_line(tmp_path: Path) -> None:
    lines = [{"epoch": n, "train_loss": 1 / n, "val_loss": 1.5 / n, "macro_f1": 0.3 * n} for n in (1, 2)]
    (tmp_path / "log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = "A training log of 2 epochs. At the end train_loss 0.500, val_loss 0.750, macro_f1 0.600."
    assert desk_charts.log(tmp_path / "log").alt == told


def test_the_threshold_tells_what_is_routed_and_what_it_costs() -> None:
    logits = torch.tensor([[9.0, 0, 0], [9.0, 0, 0], [0, 0.1, 0], [0, 0.1, 0]])
    live = desk_charts.threshold(logits, torch.tensor([0, 1, 1, 0]), wrong=6.0, human=1.0)
    assert live.picture.alt.endswith("100% routed, 50.0% of them right; a ticket costs 3.00 on average.")
    live.set("percent", 50)  # two are sure, one of them wrongly; two go to a person
    assert live.picture.alt.endswith("50% routed, 50.0% of them right; a ticket costs 2.00 on average.")


def test_an_answer_is_drawn_with_its_words() -> None:
    class Stub:
        def answer(self, text: str) -> dict[str, Any]:
            return {"queue": "billing", "confidence": 0.5, "human": "sure" not in text, "words": text.split()[:1]}

    live = desk_charts.ask(Stub(), "card lost")
    assert live.picture.alt == "'card lost' goes to a human: 50%; words: card."
    live.set("ticket", "sure")
    assert live.picture.alt == "'sure' goes to billing: 50%; words: sure."


# --- the parts that stand in -------------------------------------------------------------------------------------


def test_every_exercise_of_the_lesson_has_a_part_that_stands_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(router_parts.STAND_INS) == set(exercises("14_ticket_router"))
    assert router_parts.part("latency", {}) is router_parts.STAND_INS["latency"][0]
    assert capsys.readouterr().out == "latency: yours does not pass yet, so a mean stands in\n"


def test_parts_that_stand_in_make_a_router_that_learns(tmp_path: Path) -> None:
    torch.manual_seed(0)
    parts = {name: part for name, (part, _) in router_parts.STAND_INS.items()}
    parts |= demonstrated(paths.SOLUTIONS / "14_ticket_router.py", "batches", "pretrain")
    rows, report = parts["clean_tickets"]([(text, str(i % 2)) for i, text in enumerate([*TEXTS * 2, " "])])
    assert len(rows) == len(TEXTS) and report == {"dropped": 5}
    vocab = parts["build_vocab"](TEXTS, max_size=30)
    labels = torch.tensor([int(label) for _, label in rows])
    data = parts["batches"](parts["encode"], [text for text, _ in rows], labels, vocab, 8, size=2)
    model = parts["TicketRouter"](len(vocab), len(vocab))
    losses = parts["pretrain"](model, data, 30)
    assert losses[-1] < losses[0] / 2
    assert parts["swap_head"](model, 2) == ["head.bias", "head.weight"]
    record = parts["train_router"](model, data, data, epochs=20, lr=3e-3, device="cpu", log=tmp_path / "log")
    assert record["macro_f1"] == 1.0 and len((tmp_path / "log").read_text().splitlines()) == 20


def test_the_baselines_are_scored_by_macro_f1() -> None:
    train, held = torch.tensor([0, 0, 1, 2]), torch.tensor([0, 0, 1, 2])
    assert router_parts.macro_f1(router_parts.majority(train, held), held) == pytest.approx((2 * 2 / 6) / 3)
    words = router_parts.bag_of_words(
        ["card", "card paid", "crash", "login"], train, ["card", "paid", "crash", "login"]
    )
    assert router_parts.macro_f1(words, held) == 1.0


# --- the server --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, dict[str, int]]:
    """Return a folder with a release, its model and its vocabulary."""
    torch.manual_seed(1)
    parts, folder = router_parts.STAND_INS, tmp_path_factory.mktemp("release")
    vocab = parts["build_vocab"][0](TEXTS, max_size=30)
    model = router_parts.Convolving(len(vocab), 3).eval()
    parts["release"][0](model, vocab, CONFIG, parts["encode"][0](TEXTS[:2], vocab, 8), folder)
    return folder, model, vocab


def test_the_server_answers_as_the_model_does(release: tuple[Path, Any, dict[str, int]]) -> None:
    folder, model, vocab = release
    server = serve.Server(folder)
    for text in [*TEXTS, "", "words that nobody knows", "the " * 20]:
        ids = torch.tensor([[vocab.get(word, 1) for word in text.lower().split()[:8]] or [1]])
        with torch.no_grad():
            shares = model(ids, torch.ones_like(ids, dtype=torch.bool)).softmax(-1)[0]
        found = server.answer(text)
        assert found["queue"] == CONFIG["classes"][int(shares.argmax())]  # type: ignore[index]
        assert found["confidence"] == pytest.approx(shares.max().item(), abs=2e-3)
        assert found["human"] and set(found["words"]) <= set(text.lower().split()) | {"<unk>"}


def test_the_server_runs_where_torch_is_not_installed(
    release: tuple[Path, Any, dict[str, int]], tmp_path: Path
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('torch is not installed')")
    command = [sys.executable, serve.__file__, str(release[0]), TEXTS[1]]
    done = subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert set(json.loads(done.stdout)) == {"queue", "confidence", "human", "words"}
