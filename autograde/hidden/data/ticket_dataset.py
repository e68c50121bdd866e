"""The exercise `TicketDataset`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.exercises.data.ticket_dataset import LABELS, VOCAB
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`csv.reader` knows quoted commas and line ends, which `split` does not. What is malformed is refused with "
    "its line when the file is read, not in the middle of an epoch. The classes are sorted, so a label has the "
    "same number on every machine."
)
"""Why the reference is written as it is."""
REQUIRED = ("splits-on-commas", "crashes-on-unknown-word", "counts-header")
"""The mistakes that a check must always be able to name."""


class Tickets(Dataset[Any]):
    """A right dataset. Each mistake below is this one with one method written otherwise."""

    encoding, header_rows = "utf-8", 1

    def __init__(self, path: Path, vocab: dict[str, int]) -> None:
        self.vocab = dict(vocab)
        self.tickets: list[list[str]] = []
        with self.opened(path) as file:
            for place, (line, row) in enumerate(self.rows(file)):
                if place >= self.header_rows and self.wanted(row, self.named(line, place)):
                    self.tickets.append(row)
        self.classes = self.ordered(row[-1] for row in self.tickets)

    def opened(self, path: Any) -> Any:
        return open(path, newline="", encoding=self.encoding)

    def rows(self, file: Any) -> Iterator[tuple[int, list[str]]]:
        """The rows, each with the number of the line where it ends."""
        reader = csv.reader(file)
        for row in reader:
            yield reader.line_num, row

    def named(self, line: int, place: int) -> str:
        """How a message names a row, the one at this place from 0, that ends in this line."""
        return f"line {line}"

    def wanted(self, row: list[str], name: str) -> bool:
        if row in ([], [""]):
            return False
        if len(row) != 2 or not row[1]:
            raise ValueError(f"{name} is bad")
        return True

    def ordered(self, labels: Iterable[str]) -> list[str]:
        return sorted(set(labels))

    def __len__(self) -> int:
        return len(self.tickets)

    def __getitem__(self, index: int) -> Any:
        text, label = self.tickets[index]
        return self.tensor(self.ids(self.words(text))), self.label(label)

    def words(self, text: str) -> list[str]:
        return text.lower().split()

    def ids(self, words: list[str]) -> list[int]:
        return [self.vocab.get(word, self.vocab["<unk>"]) for word in words]

    def tensor(self, ids: list[int]) -> Any:
        return torch.tensor(ids, dtype=torch.int64)

    def label(self, name: str) -> Any:
        return self.classes.index(name)


def splitting(cut: Callable[[str], list[str]]) -> type[Tickets]:
    """A dataset that cuts each line so."""

    class Splitting(Tickets):
        def rows(self, file: Any) -> Iterator[tuple[int, list[str]]]:
            for number, line in enumerate(file, 1):
                yield number, cut(line.rstrip("\r\n"))

    return Splitting


class LosesLineBreaks(Tickets):
    def rows(self, file: Any) -> Iterator[tuple[int, list[str]]]:
        return super().rows(file.read().splitlines())


class CountsHeader(Tickets):
    header_rows = 0


class ReadsLatin1(Tickets):
    encoding = "latin-1"


class SkipsBadRows(Tickets):
    def wanted(self, row: list[str], name: str) -> bool:
        return len(row) == 2 and row[1] != ""


class FindsBadRowsLate(Tickets):
    def wanted(self, row: list[str], name: str) -> bool:
        return row not in ([], [""])


class AcceptsEmptyLabels(Tickets):
    def wanted(self, row: list[str], name: str) -> bool:
        return len(row) == 2 or super().wanted(row, name)


class RefusesEmptyTexts(Tickets):
    def wanted(self, row: list[str], name: str) -> bool:
        if len(row) == 2 and not row[0]:
            raise ValueError(f"{name} is bad")
        return super().wanted(row, name)


class DropsEmptyTexts(Tickets):
    def wanted(self, row: list[str], name: str) -> bool:
        return super().wanted(row, name) and row[0] != ""


class SkipsRowsOfEmptyFields(Tickets):
    def wanted(self, row: list[str], name: str) -> bool:
        return any(row) and super().wanted(row, name)


class RefusesBlankLines(Tickets):
    def wanted(self, row: list[str], name: str) -> bool:
        if row in ([], [""]):
            raise ValueError(f"{name} is blank")
        return super().wanted(row, name)


def naming(name: Callable[[int, int], str]) -> type:
    """Return a dataset that names a bad row so, by its line and its place in the file."""
    return override(Tickets, named=lambda self, line, place: name(line, place))


def looking_up(find: Callable[[dict[str, int], str], int]) -> type:
    """Return a dataset that finds the id of a word so."""
    return override(Tickets, ids=lambda self, words: [find(self.vocab, word) for word in words])


class DropsUnknownWords(Tickets):
    def ids(self, words: list[str]) -> list[int]:
        return [self.vocab[word] for word in words if word in self.vocab]


def finding(find: Callable[[str], list[str]]) -> type:
    """Return a dataset that finds these words in a text."""
    return override(Tickets, words=lambda self, text: find(text))


def giving(give: Callable[[list[int]], Any]) -> type:
    """Return a dataset that gives the ids so."""
    return override(Tickets, tensor=lambda self, ids: give(ids))


class ClassesAsSeen(Tickets):
    def ordered(self, labels: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(labels))


class LabelAsText(Tickets):
    def label(self, name: str) -> Any:
        return name


class LabelAsTensor(Tickets):
    def label(self, name: str) -> Any:
        return torch.tensor(self.classes.index(name))


class LabelsFromOne(Tickets):
    def label(self, name: str) -> Any:
        return self.classes.index(name) + 1


TICKETS = "A dataset with a length"
OUTCOME = 'In the case "{case}" the outcome was {got}: '
COMMAS = OUTCOME + (
    "a field in quotes may hold commas and line breaks, so the file cannot be cut at commas or read line by line."
)
UNKNOWN = 'In the case "{case}" the item is {item} and should be {wanted_item}: '
LINES = 'The message of the ValueError says "{message}", but the bad row is in line {line}: '
HEADER = LINES + "a row may take several lines, and the header is line 1."
IDS = 'In the case "{case}" the ids are {ids_dtype} where {wanted_ids_dtype} is wanted'
COUNT = 'In the case "{case}" the dataset has {length} tickets where {wanted_length} are wanted: '
RAISED = 'In the case "{case}" the dataset raised {error}: '
MISTAKES = [
    Mistake("splits-on-commas", splitting(lambda line: line.split(",")), COMMAS, TICKETS),
    Mistake("splits-on-commas", splitting(lambda line: line.rsplit(",", 1)), COMMAS, TICKETS),
    Mistake("splits-on-commas", splitting(lambda line: [*line.split(","), ""][:2] if line else []), COMMAS, TICKETS),
    Mistake("crashes-on-unknown-word", looking_up(lambda vocab, word: vocab[word]), "In the case \"{case}\" the "
            "dataset raised {error} where an item is wanted: words that are not in the vocabulary become "
            "vocab[\"<unk>\"].", TICKETS),
    Mistake("counts-header", CountsHeader, COUNT + "the header was counted as one of them.", TICKETS),
    Mistake("drops-unknown-words", DropsUnknownWords, UNKNOWN + "an unknown word becomes vocab[\"<unk>\"]; it is not "
            "left out.", TICKETS),
    Mistake("words-not-lowered", finding(str.split), UNKNOWN + "the words of the vocabulary are lower case, but those "
            "of the ticket were not lower-cased.", TICKETS),
    Mistake("labels-lowered", override(Tickets, rows=lambda self, f: Tickets.rows(self, map(str.lower, f))), "In the "
            "case \"{case}\" the classes are {classes} where {wanted_classes} are wanted: the text is lower-cased "
            "before it is cut into tokens, but the names of the labels stay as they are.", TICKETS),
    Mistake("classes-not-sorted", ClassesAsSeen, "In the case \"{case}\" the classes are {classes} where "
            "{wanted_classes} are wanted: they are sorted by name, whichever ticket comes first.", TICKETS),
    Mistake("label-left-as-text", LabelAsText, UNKNOWN + "the label is the place of its name among the classes.",
            TICKETS),
    Mistake("empty-text-becomes-float", giving(torch.tensor), IDS + ": `torch.tensor` of an empty list is float32 "
            "unless a dtype is given.", TICKETS),
    Mistake("assumes-unk-is-zero", looking_up(lambda vocab, word: vocab.get(word, 0)), UNKNOWN + "the vocabulary "
            "itself says which id `<unk>` has.", TICKETS),
    Mistake("vocabulary-grows", looking_up(lambda vocab, word: vocab.setdefault(word, len(vocab))), UNKNOWN + "an "
            "unknown word got an id beyond the vocabulary, which no embedding has a row for.", TICKETS),
    Mistake("splits-on-single-spaces", finding(lambda text: text.lower().split(" ")), UNKNOWN + "`split(\" \")` makes "
            "empty words of several spaces and leaves tabs and line breaks in; `split()` splits at any white space.",
            TICKETS),
    Mistake("some-white-space-only", finding(lambda text: re.findall("[^ \t\r\n]+", text.lower())),
            UNKNOWN + "`split()` splits at any white space, a no-break space included.", TICKETS),
    Mistake("line-breaks-lost", LosesLineBreaks, UNKNOWN + "a line break between quotes belongs to the text, and the "
            "words on both sides of it ran together.", TICKETS),
    Mistake("empty-text-has-a-token", finding(lambda text: text.lower().split() or [""]), UNKNOWN + "a text without "
            "words has no ids.", TICKETS),
    Mistake("letters-not-words", finding(lambda text: list(text.lower())), UNKNOWN + "each letter was looked up, and "
            "not each word.", TICKETS),
    Mistake("ids-in-int32", giving(lambda ids: torch.tensor(ids, dtype=torch.int32)), IDS + ".", TICKETS),
    Mistake("ids-are-a-list", giving(lambda ids: ids), "In the case \"{case}\" the {item}, but have to be an int64 "
            "tensor.", TICKETS),
    Mistake("label-is-a-tensor", LabelAsTensor, UNKNOWN + "the label has to be a plain int.", TICKETS),
    Mistake("labels-from-one", LabelsFromOne, UNKNOWN + "classes are numbered from 0.", TICKETS),
    Mistake("bad-rows-skipped", SkipsBadRows, OUTCOME + "the row in line {line} was left out, where a ValueError is "
            "wanted.", TICKETS),
    Mistake("bad-rows-found-too-late", FindsBadRowsLate, "In the case \"{case}\" constructing the dataset raised "
            "{got}: the bad row in line {line} has to be found there, and not in the middle of training.", TICKETS),
    Mistake("empty-label-accepted", AcceptsEmptyLabels, OUTCOME + "line {line} has an empty label, but was accepted.",
            TICKETS),
    Mistake("empty-text-refused", RefusesEmptyTexts, RAISED + "a text may be empty; only a label may not.", TICKETS),
    Mistake("empty-text-dropped", DropsEmptyTexts, COUNT + "a text may be empty.", TICKETS),
    Mistake("blank-lines-refused", RefusesBlankLines, RAISED + "blank lines are not rows, and are skipped.", TICKETS),
    Mistake("counts-rows-not-lines", naming(lambda line, place: f"row {place + 1}"), LINES + "a row may take several "
            "lines, and blank lines count too.", TICKETS),
    Mistake("line-not-named", naming(lambda line, place: "a row"), LINES + "say which, or nobody finds it in a file of "
            "thousands.", TICKETS),
    Mistake("empty-fields-skipped", SkipsRowsOfEmptyFields, OUTCOME + "line {line} holds a comma, so it is a row with "
            "an empty label, not a blank line.", TICKETS),
    Mistake("wants-a-path-object", override(Tickets, opened=lambda self, path: path.open(newline="", encoding="utf-8")),
            RAISED + "the path may come as a string, and `open(path)` takes both.", TICKETS),
    Mistake("wrong-encoding", ReadsLatin1, UNKNOWN + "letters beyond ASCII came out wrong. Either the file was not "
            "read as UTF-8, or words were changed by more than `lower()`.", TICKETS),
    Mistake("counts-rows-not-lines", naming(lambda line, place: f"row {place}"), HEADER, TICKETS),
    Mistake("counts-rows-not-lines", naming(lambda line, place: f"line {line - 1}"), HEADER, TICKETS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def lines(name: str, *rows: str, bad_line: int = 0, end: str = "\n") -> Case:
        return case(name, text=end.join(["text,label", *rows, ""]), vocab=dict(VOCAB), bad_line=bad_line)

    def row() -> str:
        return f"{' '.join(draw.pick(list(VOCAB)[2:9]) for _ in range(4))},{draw.pick(LABELS)}"

    return [
        lines("header only"),
        lines("a quote inside quotes", '"My ""card"" \n\n charged, twice",billing', row(), row()),
        lines("line ends of Windows", row(), "", '"a\r\nscreen",technical', row(), end="\r\n"),
        lines("only unknown words", "Привет мир,account", "日本語 テスト,technical"),
        lines("many tickets", *(row() for _ in range(60))),
        lines("bad in the last line", *(row() for _ in range(11)), "", "", "a,b,c,d", bad_line=15),
        lines("no label after quotes", *(row() for _ in range(5)), '"the\napp\ncrashes",account', '"a, b",',
              bad_line=10),
    ]  # fmt: skip


# Right answers unlike the reference


class TicketsWithDictReader(Dataset[Any]):
    """Encodes on construction."""

    def __init__(self, path: Any, vocab: dict[str, int]) -> None:
        unknown, self.encoded, names = vocab["<unk>"], [], []
        with Path(path).open(encoding="utf8", newline="") as file:
            reader = csv.DictReader(file)
            for row in reader:
                if None in row or row["label"] is None or row["label"] == "":
                    raise ValueError(f"{path}:{reader.line_num}: expected text,label")
                ids = torch.empty(0, dtype=torch.long)
                tokens = row["text"].lower().split()
                if tokens:
                    ids = torch.LongTensor([vocab[t] if t in vocab else unknown for t in tokens])  # noqa: SIM401
                self.encoded.append(ids)
                names.append(row["label"])
        self.classes = tuple(sorted(set(names)))
        self.place = {name: i for i, name in enumerate(self.classes)}
        self.targets = [self.place[name] for name in names]

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return self.encoded[i].clone(), self.targets[i]


class TicketsReadByHand(Dataset[Any]):
    """A reader of quotes, letter by letter."""

    def __init__(self, path: Any, vocab: dict[str, int]) -> None:
        self.vocab = defaultdict(lambda: vocab["<unk>"], vocab)
        text = Path(path).read_bytes().decode("utf-8").replace("\r\n", "\n")
        _, *rows = self._rows(text)
        for line, fields in rows:
            if len(fields) != 2:
                raise ValueError(f"In line {line} there are {len(fields)} fields; 2 are wanted")
            if not fields[1]:
                raise ValueError(f"In line {line} the label is missing")
        self.texts = [fields[0] for _, fields in rows]
        self.labels = np.array([fields[1] for _, fields in rows], dtype=object)
        self.classes = sorted(set(self.labels.tolist()))

    def _rows(self, text: str) -> Iterator[tuple[int, list[str]]]:
        fields, field, quoted, line = list[str](), "", False, 1
        letters = iter(range(len(text)))
        for i in letters:
            c = text[i]
            line += c == "\n"
            if quoted and c == '"' and text[i + 1 : i + 2] == '"':
                field += '"'
                next(letters)
            elif c == '"':
                quoted = not quoted
            elif c == "," and not quoted:
                fields, field = [*fields, field], ""
            elif c == "\n" and not quoted:
                if fields or field:
                    yield line - 1, [*fields, field]
                fields, field = [], ""
            else:
                field += c
        if fields or field:
            yield line, [*fields, field]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        tokens = self.texts[i].lower().split()
        array = np.fromiter((self.vocab.get(t, self.vocab["<unk>"]) for t in tokens), dtype=np.int64)
        return torch.from_numpy(array), self.classes.index(self.labels[i])


class TicketsInOneString(Dataset[Any]):
    def __init__(self, path: Any, vocab: dict[str, int]) -> None:
        reader = csv.reader(io.StringIO(Path(path).read_bytes().decode(), newline=""))
        self.rows = []
        for count, row in enumerate(reader):
            if count == 0 or row == []:
                continue
            try:
                text, label = row
                assert label
            except (ValueError, AssertionError) as error:
                raise ValueError(f"bad row at line {reader.line_num}: {len(row)} fields instead of 2") from error
            self.rows.append({"text": text, "label": label})
        self.vocab = vocab
        self.classes = sorted(Counter(row["label"] for row in self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> list[Any]:
        row = self.rows[i]
        ids = torch.zeros(len(row["text"].split()), dtype=torch.int64)
        for place, token in enumerate(row["text"].split()):
            ids[place] = self.vocab.get(token.lower(), self.vocab["<unk>"])
        return [ids, sum(name < row["label"] for name in self.classes)]


RIGHT_ANSWERS: list[Callable[..., Any]] = [TicketsWithDictReader, TicketsReadByHand, TicketsInOneString]
