"""A sample class of ten: right, wrong in several ways, broken. For trying the grader, and for proving it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autograde import course
from autograde.script import answers_as_text

__all__ = ["make_sample_class"]

LESSON = "01_tensors"

BEN = {  # right, in other styles than the lesson's
    "row_softmax": """
def row_softmax(x):
    log_total = torch.logsumexp(x, dim=-1, keepdim=True)
    return torch.exp(x - log_total)
""",
    "select_scores": """
def select_scores(scores, labels):
    rows = torch.arange(len(labels), device=labels.device)
    return scores[rows, labels]
""",
    "attention_scores": """
import math

def attention_scores(q, k):
    return torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.size(-1))
""",
    "masked_mean": """
def masked_mean(x, mask):
    kept = torch.where(mask[:, :, None], x, torch.zeros_like(x))
    count = mask.sum(dim=1).to(x.dtype)
    count = torch.maximum(count, torch.ones_like(count))
    return kept.sum(dim=1) / count[:, None]
""",
}
CLEO = {
    "row_softmax": """
def row_softmax(x):
    weights = torch.exp(x - x.max())
    return weights / weights.sum(dim=-1, keepdim=True)
""",
    "standardize": """
def standardize(x, dim, eps=1e-5):
    mean = x.mean(dim, keepdim=True)
    return (x - mean) / torch.sqrt(x.var(dim, keepdim=True) + eps)
""",
    "image_to_chw": """
def image_to_chw(image):
    *batch, h, w, c = image.shape
    return image.reshape(*batch, c, h, w).float() / 255
""",
    "attention_scores": """
def attention_scores(q, k):
    return torch.matmul(q, k.transpose(2, 3))
""",
    "masked_mean": """
def masked_mean(x, mask):
    m = mask.unsqueeze(-1)
    return (x * m).sum(1) / m.sum(1).clamp(min=1)
""",
}
DAN = {
    "one_hot": """
def one_hot(labels, num_classes, dtype=torch.float32):
    if ((labels < 0) | (labels >= num_classes)).any():
        raise ValueError(f"labels must lie in 0..{num_classes - 1}, got {labels.min()} to {labels.max()}")
    table = torch.zeros(*labels.shape, num_classes, dtype=dtype)
    return table.scatter(-1, labels.unsqueeze(-1), 1)
""",
    "pairwise_distances": """
def pairwise_distances(a, b):
    return torch.cdist(a, b)
""",
    "describe": """
def describe(t) -> dict
    return {}
""",
}
IVO = {
    "standardize": """
def standardize(x, dim, eps=1e-5):
    while True:
        pass
""",
    "masked_mean": """
def masked_mean(x, mask):
    import os
    os._exit(1)
""",
}
ODD_CELL = """import sys, warnings
warnings.warn("this costs nothing")
print("nor does this", file=sys.stderr)
torch.set_default_dtype(torch.float64)
torch.manual_seed(1)"""


def make_sample_class(folder: Path) -> list[str]:
    """Write the ten submissions of lesson 01 below `folder`, as STUDENT/LESSON/LESSON.ipynb; the students' names."""
    solved = answers_as_text(course.SOLUTIONS / f"{LESSON}.py")
    files: dict[str, bytes | None] = {
        "ada": _bytes(_notebook(solved)),
        "ben": _bytes(_notebook({**solved, **BEN})),
        "cleo": _bytes(_notebook({**solved, **CLEO})),
        "dan": _bytes(_notebook({**solved, **DAN})),
        "eve": _bytes(_notebook({})),
        "finn": _bytes(_notebook(solved))[:20_000],
        "gil": None,
        "hana": b"\xef\xbb\xbf" + _bytes(_oddly(_notebook(solved))).replace(b"\n", b"\r\n"),
        "ivo": _bytes(_notebook({**solved, **IVO})),
        "jun": _bytes(_tampered(_notebook(solved))),
    }
    for student, data in files.items():
        path = folder / student / LESSON / f"{LESSON}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        if data is not None:
            path.write_bytes(data)
    return sorted(files)


def _notebook(answers: dict[str, str]) -> Any:
    notebook = json.loads((course.NOTEBOOKS / f"{LESSON}.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        name = _grade_id(cell)
        if name in answers:
            cell["source"] = answers[name].strip()
    return notebook


def _grade_id(cell: dict[str, Any]) -> str:
    return str(cell["metadata"].get("nbgrader", {}).get("grade_id", ""))


def _bytes(notebook: Any) -> bytes:
    return json.dumps(notebook, indent=1).encode()


def _oddly(notebook: Any) -> Any:
    """What happens to honest notebooks: another kernel, a further cell that warns, check cells deleted and moved."""
    setup = next(i for i, c in enumerate(notebook["cells"]) if "setup" in c["metadata"].get("tags", []))
    odd = {"cell_type": "code", "execution_count": 3, "metadata": {}, "outputs": [], "source": ODD_CELL}
    notebook["cells"].insert(setup + 1, odd)
    notebook["metadata"]["kernelspec"] = {"display_name": "my env", "language": "python", "name": "my-env"}
    kept = [c for c in notebook["cells"] if _grade_id(c) != "check_describe"]
    moved = next(c for c in kept if _grade_id(c) == "check_row_softmax")
    kept.remove(moved)
    notebook["cells"] = [*kept, moved]
    return notebook


def _tampered(notebook: Any) -> Any:
    for cell in notebook["cells"]:
        if _grade_id(cell) == "check_describe":
            cell["metadata"]["nbgrader"]["points"] = 100
        elif _grade_id(cell) == "one_hot":
            cell["metadata"]["nbgrader"]["grade_id"] = "row_softmax"
        elif _grade_id(cell) == "to_numpy":
            cell["cell_type"] = "markdown"
    return notebook
