"""Write the support tickets of lessons 04 and 14, the same ones in every run: `python -m tools.tickets`.

They are made from templates, so that they hold nobody's own words, and read like what people write to a help desk.
"""

from __future__ import annotations

import csv
import random
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "src" / "torchcourse" / "data" / "tickets.csv"
COUNTS = {"billing": 280, "technical": 230, "account": 90}

OPENINGS = ["Hello,", "Hi there,", "Good morning,", "Dear team,", "Bonjour,", "Grüezi,", "Hi,", "Hola,", "To support:"]
CLOSINGS = ["Thanks!", "Thank you, {name}", "Please help.", "Regards, {name}", "Any idea?", "Merci, {name}",
            "Kind regards,\n{name}", "Can you look into it today?", "Not urgent.", "Best, {name}"]  # fmt: skip
NAMES = ["Zoë", "Jürgen", "María", "Łukasz", "Anna", "Tom", "François", "Priya", "Søren", "Mei", "Olga", "Amara",
         "Nguyễn", "Björn", "Ken"]  # fmt: skip
MONTHS = ["January", "March", "April", "June", "August", "September", "November"]
PRODUCTS = ["the app", "the website", "the desktop program", "the tablet version", "the browser extension"]
DEVICES = ["my phone", "an old laptop", "my tablet", "the office computer", "Windows 11", "Android 14", "my Mac"]
PLANS = ["family plan", "student plan", "basic plan", "team plan", "yearly subscription", "trial"]
SUMS = ["12 €", "€49.90", "$15", "£8.50", "CHF 20", "99 kr", "1,250 ¥", "$7.99"]
ERRORS = ["error 503", "a blank screen", "\"connection lost\"", "error 0x80070057", "an endless spinner",
          "\"file too large\"", "a frozen progress bar"]  # fmt: skip
FILES = ["photos", "a PDF", "my backup", "the report", "a video", "a spreadsheet"]

BODIES = {
    "billing": [
        "my card was charged twice for the {plan} in {month}.",
        "I was charged {sum} although I cancelled the {plan} in {month}",
        "the invoice for {month} shows {sum}, but the price is lower on your page.",
        "please send me a refund of {sum}, the {plan} was never used.",
        "where do I find the invoice for {month}? My accountant, {name}, needs it.",
        "can I pay the {plan} by bank transfer instead of card?",
        "the discount code for the {plan} was not applied, I paid {sum}",
        "my payment of {sum} failed three times, and now my card is blocked",
        "the VAT number is missing on the {month} invoice",
        "why did the price of the {plan} rise to {sum}?",
        "the refund of {sum} promised in {month} has not arrived yet.",
        "I upgraded from the {plan} and now pay for both",
    ],
    "technical": [
        "{product} crashes on {device} as soon as I open {file}.",
        "since the last update {product} shows {error}",
        "uploading {file} stops at 99 % with {error}.",
        "sync between {device} and {product} has not worked since {month}.",
        "I cannot download {file}: {error}",
        "{product} is very slow on {device}, it takes a minute to start",
        "the search in {product} finds nothing, not even {file}",
        "on {device} the text is so small that I cannot read it",
        "after I open {file} there is only {error}, nothing else",
        "printing {file} from {product} gives {error}.",
        "notifications on {device} arrive hours late",
    ],
    "account": [
        "I cannot log in, the password reset mail never arrives.",
        "please change the e-mail address of my account to {mail}",
        "my account was locked after three wrong passwords",
        "how do I delete my account and all my data?",
        "I lost {device} and with it the codes for two-step login.",
        "somebody logged in from another country, is my account safe?",
        "please move my account to {name}, who takes over in {month}",
        "my name is written wrong in my profile, it should be {name}",
        "I have two accounts, {mail} and an old one. Can you merge them?",
    ],
}


def _fill(rng: random.Random, template: str) -> str:
    name = rng.choice(NAMES)
    return template.format(
        name=name, month=rng.choice(MONTHS), product=rng.choice(PRODUCTS), device=rng.choice(DEVICES),
        plan=rng.choice(PLANS), sum=rng.choice(SUMS), error=rng.choice(ERRORS), file=rng.choice(FILES),
        mail=f"{rng.choice(['info', 'kontakt', 'me', 'office'])}@{rng.choice(['example.org', 'example.com'])}",
    )  # fmt: skip


def ticket(rng: random.Random, label: str) -> str:
    """Return the text of one ticket."""
    parts = [rng.choice(BODIES[label])]
    if rng.random() < 0.45:
        parts.insert(0, rng.choice(OPENINGS))
    if rng.random() < 0.5:
        parts[-1] += "" if parts[-1][-1] in ".?!" else "."
        parts.append(rng.choice(CLOSINGS))
    separator = "\n" if rng.random() < 0.12 else " "
    text = _fill(rng, separator.join(parts))
    if len(parts) == 1 or not parts[0].endswith(","):
        text = text[0].upper() + text[1:]
    return text.upper() if rng.random() < 0.03 else text


def tickets(seed: int = 4) -> list[tuple[str, str]]:
    """Return all tickets, no two the same, in random order."""
    rng = random.Random(seed)
    rows: dict[str, str] = {}
    for label, count in COUNTS.items():
        wanted = len(rows) + count
        while len(rows) < wanted:
            rows.setdefault(ticket(rng, label), label)
    mixed = list(rows.items())
    rng.shuffle(mixed)
    return mixed


# --- lesson 14: tickets as they come in, with all that makes them hard ---------------------------------------------

DESK = TARGET.with_name("desk_tickets.csv")
DESK_COUNTS = {"billing": 1260, "technical": 630, "account": 210}
CONTRASTS = [
    "{other} That is solved by now. Today {own}", "first {other} But never mind that: {own}",
    "{own} This has nothing to do with what I wrote last week: {other}", "not about this: {other} It is that {own}",
    "your colleague thought that {other} No, it is that {own}", "{own} (Before, it was that {other} That is settled.)",
]  # fmt: skip
"""Two matters in one ticket: only the order of the words tells which of them is meant."""
FILLERS = ["I have been a customer for {sum} a month since {month}.", "{name} from your team was very kind.",
           "I am writing from {device}.", "We are on the {plan}.", "I hope you had a good weekend."]  # fmt: skip
CONTRAST, IN_OTHER_WORDS, LONG = 0.5, 0.02, 0.02
AGAIN, CONTRADICTED, EMPTY = 90, 40, 12


def misspelled(rng: random.Random, text: str) -> str:
    """Return a text with two neighbouring letters of a word exchanged."""
    words = text.split(" ")
    place = rng.choice([i for i, word in enumerate(words) if len(word) > 4] or [0])
    word, at = words[place], rng.randrange(max(len(words[place]) - 2, 1))
    words[place] = word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :]
    return " ".join(words)


def desk_ticket(rng: random.Random, label: str) -> str:
    """Return the text of one ticket for the queue `label`."""
    spoken = rng.choice([name for name in BODIES if name != label]) if rng.random() < IN_OTHER_WORDS else label
    text = rng.choice(BODIES[spoken]).rstrip(".?") + "."
    if rng.random() < CONTRAST:
        other = rng.choice([name for name in BODIES if name != label])
        text = (
            rng.choice(CONTRASTS)
            .replace("{own}", text)
            .replace("{other}", rng.choice(BODIES[other]).rstrip(".?") + ".")
        )
    if rng.random() < 0.3:
        text = f"{rng.choice(OPENINGS)} {text}"
    long = rng.random() < LONG
    while rng.random() < 0.25 or (long and len(text) < 900):
        text += f" {rng.choice(FILLERS)}"
    text = _fill(rng, text)
    while rng.random() < 0.2:
        text = misspelled(rng, text)
    return text


def desk_tickets(seed: int = 14) -> list[tuple[str, str]]:
    """Return the rows of the desk's file: about 6 : 3 : 1, some of them copies, contradictions or empty."""
    rng = random.Random(seed)
    rows = [(desk_ticket(rng, label), label) for label, count in DESK_COUNTS.items() for _ in range(count)]
    rows += [(rng.choice([text, text.upper(), f" {text}", text.replace(" ", "  ", 2)]), label)
             for text, label in rng.sample(rows, AGAIN)]  # fmt: skip
    rows += [(text, rng.choice([name for name in BODIES if name != label]))
             for text, label in rng.sample(rows, CONTRADICTED)]  # fmt: skip
    rows += [(rng.choice(["", " ", "\n"]), rng.choice(list(BODIES))) for _ in range(EMPTY)]
    rng.shuffle(rows)
    return rows


def write(path: Path, rows: list[tuple[str, str]]) -> None:
    """Write tickets as CSV: UTF-8, with a header, fields quoted where necessary."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["text", "label"])
        writer.writerows(rows)


if __name__ == "__main__":
    write(TARGET, tickets())
    write(DESK, desk_tickets())
