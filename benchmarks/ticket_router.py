"""Compare lesson 14's router with its baselines over five seeds: `python benchmarks/ticket_router.py`.

Each seed draws another split, other weights and another order of batches. All parts are the solutions of the
lesson's exercises, and the functions that it shows. Writes
src/torchcourse/data/router_seeds.json, which the lesson shows as a table.
"""

from __future__ import annotations

import json
import random
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from autograde.judge.oracle import references
from autograde.source import paths
from tests.support.demonstrations import demonstrated
from torchcourse.data import desk
from torchcourse.demos import router_parts
from torchcourse.demos.router_parts import bag_of_words, macro_f1, majority, scores

TARGET = Path(__file__).resolve().parents[1] / "src" / "torchcourse" / "data" / "router_seeds.json"
COMMAND = "python benchmarks/ticket_router.py"
SEEDS = range(5)


def measured(answers: dict[str, Any], seed: int) -> dict[str, float]:
    """Return the macro F1 on held-out tickets of the baselines and of a router trained with this seed."""
    kept, _ = answers["clean_tickets"](desk.load())
    names = sorted({label for _, label in kept})
    texts, numbers = [text for text, _ in kept], torch.tensor([names.index(label) for _, label in kept])
    rest, held = answers["split_tickets"](texts, [label for _, label in kept], 0.2, seed)
    train, val = answers["split_tickets"]([texts[i] for i in rest], [kept[i][1] for i in rest], 0.15, seed)
    train, val = [rest[i] for i in train], [rest[i] for i in val]
    vocab = answers["build_vocab"]([texts[i] for i in train], **router_parts.VOCAB)

    def made(rows: list[int]) -> Any:
        chosen = [texts[i] for i in rows]
        return answers["batches"](answers["encode"], chosen, numbers[rows], vocab, router_parts.MAX_LEN)

    torch.manual_seed(seed)
    random.seed(seed)
    model = answers["TicketRouter"](len(vocab), len(vocab))
    answers["pretrain"](model, made(train), router_parts.PRETRAINING)
    answers["swap_head"](model, len(names))
    with tempfile.TemporaryDirectory() as folder:
        answers["train_router"](model, made(train), made(val), log=Path(folder) / "log", device="cpu",
                                **router_parts.TRAINING)  # fmt: skip
    bag = bag_of_words([texts[i] for i in train], numbers[train], [texts[i] for i in held])
    return {
        "seed": seed,
        "majority": macro_f1(majority(numbers[train], numbers[held]), numbers[held]),
        "bag of words": macro_f1(bag, numbers[held]),
        "router": macro_f1(*scores(model, made(held))),
    }


def main() -> None:
    """Measure all seeds, print a line for each, and write the table."""
    torch.set_num_threads(1)
    shown = demonstrated(paths.SOLUTIONS / "14_ticket_router.py", "batches", "pretrain")
    answers = {**references("14_ticket_router"), **shown}
    rows = []
    for seed in SEEDS:
        rows.append(measured(answers, seed))
        print("  ".join(f"{key} {value:.3f}" if key != "seed" else f"seed {value}" for key, value in rows[-1].items()))
    day = datetime.now(UTC).date().isoformat()
    TARGET.write_text(
        json.dumps({"command": COMMAND, "date": day, "torch": torch.__version__, "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
