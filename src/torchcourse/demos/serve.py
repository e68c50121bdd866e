"""Answer tickets from a release, with NumPy and ONNX Runtime alone: `python serve.py FOLDER "the text of a ticket"`."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime


class Server:
    """The release in a folder, ready to answer one ticket at a time."""

    def __init__(self, folder: str | Path) -> None:
        self.config, self.vocab = (json.loads(Path(folder, f"{n}.json").read_text()) for n in ("config", "vocab"))
        self.session = onnxruntime.InferenceSession(Path(folder, "router.onnx"), providers=["CPUExecutionProvider"])

    def probabilities(self, ids: Any) -> Any:
        logits = self.session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids, dtype=bool)})[0]
        shares = np.exp(logits - logits.max(1, keepdims=True))
        return shares / shares.sum(1, keepdims=True)

    def answer(self, text: str) -> dict[str, Any]:
        """Return queue, confidence, whether a human should look, and the words without which it is less sure."""
        words, unknown = text.lower().split()[: self.config["max_len"]] or ["<unk>"], self.vocab["<unk>"]
        ids = np.array([self.vocab.get(word, unknown) for word in words])
        shares = self.probabilities(ids[None])[0]
        without = np.where(np.eye(len(ids), dtype=bool), unknown, ids)
        lost = shares.max() - self.probabilities(without)[:, shares.argmax()]
        told = [words[place] for place in (-lost).argsort()[:3] if lost[place] > 0]
        return {"queue": self.config["classes"][shares.argmax()], "confidence": round(float(shares.max()), 3),
                "human": bool(shares.max() < self.config["threshold"]), "words": told}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(Server(sys.argv[1]).answer(sys.argv[2])))
