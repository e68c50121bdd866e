"""Rosters as they come: every bad row is named with its line, and the others are taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograde.classroom.roster import Member, RosterError, merged, read_roster, write_roster

HEADER = "id,first_name,last_name,email\n"
ADA = Member("ada", "Ada", "Lovelace", "ada@example.org")


def read(tmp_path: Path, text: str | bytes) -> tuple[list[Member], list[str]]:
    path = tmp_path / "roster.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    roster = read_roster(path)
    return list(roster.members), [str(fault) for fault in roster.faults]


@pytest.mark.parametrize(
    ("row", "who", "why"),
    [
        (",Bo,Blank,bo@example.org", "Bo Blank", "the id is blank"),
        ("ada,Ada,Again,", "ada", "an earlier row has this id (line 2 of "),
        ("ADA,Ada,Upper,", "ADA", "an earlier row has this id"),
        ("../eve,Eve,Up,", "../eve", "names folders"),
        ("a/b,Eve,Slash,", "a/b", "names folders"),
        ("a\\b,Eve,Back,", "a\\b", "names folders"),
        ("..,Eve,Dots,", "..", "names folders"),
        (".hidden,Eve,Dot,", ".hidden", "names folders"),
        ("a*,Eve,Star,", "a*", "names folders"),
        ("a b,Eve,Space,", "a b", "names folders"),
        ("01_tensors,Eve,Lesson,", "01_tensors", "is the name of a lesson"),
        ("=1+1,Eve,Sum,", "=1+1", "is a formula"),
        ('bob,"=HYPERLINK(""http://x"",""y"")",B,', "bob", "the first_name"),
        ("bob,Bob,+49 cmd,", "bob", "the last_name"),
        ("bob,Bob,@SUM(A1),", "bob", "the last_name"),
        ("bob,Bob,-1,", "bob", "the last_name"),
        ("bob,B\x07ob,B,", "bob", "do not print"),
        ("bob,Bob,B,nowhere", "bob", "no e-mail address"),
        ("bob,Bob,B,ADA@example.org", "bob", "already the e-mail address of ada"),
        ("bob,<img src=x>,B,", "bob", "the first_name holds < >"),
        ("bob,Bob,B,bob&x@example.org", "bob", "the email holds &"),
        ("bob,Bob,Smith, Jr.,bob@example.org", "bob", "in quotes"),
        ("x" * 101 + ",Bob,B,", "x" * 101, "names folders"),
    ],
)
def test_a_bad_row_is_named_and_the_others_are_taken(tmp_path: Path, row: str, who: str, why: str) -> None:
    members, faults = read(tmp_path, f"{HEADER}ada,Ada,Lovelace,ada@example.org\n{row}\nzoe,Zoe,Zander,\n")
    assert members == [ADA, Member("zoe", "Zoe", "Zander")]
    (fault,) = faults
    assert fault.startswith(f"line 3, {who}: ")
    assert why in fault


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_what_spreadsheets_write_is_read(tmp_path: Path, encoding: str, delimiter: str) -> None:
    text = "\r\n".join(["ID,First Name,Last Name,Email", "zoé,Zoé,Müller,zoe@example.org", "", ",,,", ""])
    members, faults = read(tmp_path, text.replace(",", delimiter).encode(encoding))
    assert members == [Member("zoé", "Zoé", "Müller", "zoe@example.org")]
    assert faults == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("zoe,Zoë".encode(), []),
        ("zoe,Zoë".encode("utf-16"), []),
        (b"zoe,Zo?", ["line 2, zoe: a letter of Zo? is lost: save the roster as UTF-8"]),
        ("zoe,Zo\ufffd".encode(), ["line 2, zoe: a letter of Zo\ufffd is lost: save the roster as UTF-8"]),
        (b"jo,Jo\nren,Ren\x8e\nzoe,Zo\x91", ["line 3, ren: the file is not UTF-8 and was read as cp1252, with this "
                                             "name as RenŽ: if that is wrong, save the roster as UTF-8"]),
        (b"ren,Ren\x81", ["line 2, ren: a letter of Ren\ufffd is lost: save the roster as UTF-8"]),
    ],
)  # fmt: skip
def test_names_that_may_have_lost_letters_count_and_are_named_with_the_remedy(
    tmp_path: Path, rows: bytes, said: list[str]
) -> None:
    header = "id,first_name\n"
    start = header.encode("utf-16") if rows.startswith(b"\xff\xfe") else header.encode()
    (tmp_path / "roster.csv").write_bytes(start + rows.removeprefix(b"\xff\xfe"))
    roster = read_roster(tmp_path / "roster.csv")
    assert [str(doubt) for doubt in roster.doubts] == [f"{words} and run this again." for words in said]
    assert roster.members and not roster.faults


def test_letters_that_are_written_in_two_ways_are_one(tmp_path: Path) -> None:
    members, faults = read(tmp_path, f"{HEADER}zoé,Z,Z,\nzoe\u0301,Z,Z,\n")
    assert [member.id for member in members] == ["zoé"]
    assert "an earlier row has this id" in faults[0]


@pytest.mark.parametrize("text", ["", "name,email\nada,a@b\n", "id,id\nada,ada\n", "id,first_name\n" + "x" * 200_000])
def test_what_is_no_roster_is_refused_with_the_columns_it_needs(tmp_path: Path, text: str) -> None:
    with pytest.raises(RosterError, match=r"a roster has the column id|no CSV file"):
        read(tmp_path, text)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    members = [ADA, Member("b-2@x.org", "Bo (B)", "O'Neil, Jr.", "b@x.org", "4711")]
    write_roster(tmp_path / "again.csv", members)
    assert list(read_roster(tmp_path / "again.csv").members) == members


def test_a_number_of_the_platform_belongs_to_one_student(tmp_path: Path) -> None:
    members, faults = read(tmp_path, "id,lms_user_id\nada,7\nbo,\ncy,\ntwin,7\n")
    assert [member.id for member in members] == ["ada", "bo", "cy"]
    place = f"line 2 of {tmp_path / 'roster.csv'}"
    assert faults == [f"line 5, twin: 7 is already the lms_user_id of ada in {place}; correct it or leave it empty."]


def test_two_rosters_together_are_checked_as_one(tmp_path: Path) -> None:
    def roster(name: str, rows: str) -> tuple[Member, ...]:
        (tmp_path / name).write_text(f"id,email,lms_user_id\n{rows}")
        return read_roster(tmp_path / name).members

    before = roster("roster.csv", "ada,a@x.org,1\nbo,,2\n")
    swapped = merged(before, roster("more.csv", "bo,,1\nada,a@x.org,2\ncy,,3\n"))
    assert [(member.id, member.lms_user_id) for member in swapped] == [("ada", "2"), ("bo", "1"), ("cy", "3")]
    repeated = {
        "cy,A@x.org,3": "A@x.org is already the e-mail address of ada",
        "cy,,1": "1 is already the lms_user_id of ada",
        "ADA,,3": "an earlier row has this id",
    }
    for row, what in repeated.items():
        with pytest.raises(RosterError) as refusal:
            merged(before, roster("more.csv", f"{row}\n"))
        for words in (what, f"line 2 of {tmp_path / 'roster.csv'}", f"line 2 of {tmp_path / 'more.csv'}, "):
            assert words in str(refusal.value)
