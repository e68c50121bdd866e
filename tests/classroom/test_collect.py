"""Archives from Moodle and Canvas: whose notebook, which attempt, and what must not be unpacked."""

from __future__ import annotations

import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from autograde.classroom.collect import Collected, CollectError, collect
from autograde.classroom.roster import Member
from autograde.settings import LIMITS
from tests.support.archives import ADA, BO, LESSON, archive
from tests.support.commands import run_instructors
from tests.support.costs import cpu_below
from torchcourse.model import lessons

TWIN = Member("twin", "Ada", "Lovelace", "twin@example.org", "40003")
Files = dict[str, bytes]


def collected(tmp_path: Path, files: Files, members: tuple[Member, ...] = (ADA, BO)) -> tuple[Collected, Files]:
    into = tmp_path / "submitted"
    found = collect(archive(tmp_path, files), LESSON, into, members)
    return found, {str(p.relative_to(into)): p.read_bytes() for p in into.rglob("*") if p.is_file()}


ADAS, BOS = f"ada/{LESSON}/{LESSON}.ipynb", f"bo/{LESSON}/{LESSON}.ipynb"


@pytest.mark.parametrize(
    ("ada", "bo"),
    [
        (f"Ada Lovelace_1234567_assignsubmission_file/{LESSON}.ipynb",
         f"Bo ONeil-Müller_1234568_assignsubmission_file/{LESSON}.ipynb"),
        (f"Ada Lovelace_1234567_assignsubmission_file_/{LESSON}.ipynb",
         f"Bo ONeil-Mu\u0308ller_1234568_assignsubmission_file_/sub folder/{LESSON}.ipynb"),
        (f"Ada Lovelace_1234567_assignsubmission_file_{LESSON}.ipynb",
         f"ONeil-Muller Bo_1234568_assignsubmission_file_{LESSON}.ipynb"),
        (f"lovelaceada_40001_987654_{LESSON}.ipynb", f"oneilmüllerbo_LATE_40002_987655_{LESSON}-2.ipynb"),
        (f"submissions/lovelaceada_40001_987654_{LESSON}.ipynb", f"submissions/whoever_40002_987655_{LESSON}.ipynb"),
    ],
)  # fmt: skip
def test_everybody_is_recognised(tmp_path: Path, ada: str, bo: str) -> None:
    found, files = collected(tmp_path, {ada: b"of ada", bo: b"of bo", ada.replace(".ipynb", ".pdf"): b"else"})
    assert files == {ADAS: b"of ada", BOS: b"of bo"}
    assert (found.new, found.refused, found.absent) == (["ada", "bo"], [], [])
    assert found.late == (["bo"] if "LATE" in bo else [])


def test_the_latest_attempt_wins(tmp_path: Path) -> None:
    moodle, canvas = "Ada Lovelace_12_assignsubmission_file/", "oneilmullerbo_40002_"
    found, files = collected(tmp_path, {
        f"{moodle}{LESSON} (2).ipynb": b"second copy", f"{moodle}{LESSON}(10).ipynb": b"tenth copy",
        f"{moodle}{LESSON}.ipynb": b"first", f"{moodle}notes.ipynb": b"something else",
    })  # fmt: skip
    assert files == {ADAS: b"tenth copy"}
    assert len(found.notes) == 1
    found, files = collected(tmp_path, {
        f"{canvas}902_{LESSON}.ipynb": b"later", f"{canvas}901_{LESSON}-7.ipynb": b"earlier",
    })  # fmt: skip
    assert files[BOS] == b"later"
    assert len(found.notes) == 1


def test_where_moodle_made_the_archive_a_name_like_those_of_canvas_identifies_nobody(tmp_path: Path) -> None:
    found, files = collected(tmp_path, {
        f"Bo ONeil-Müller_7_assignsubmission_file/{LESSON}.ipynb": b"of bo",
        f"Bo ONeil-Müller_7_assignfeedback/lovelaceada_40001_9_{LESSON}.ipynb": b"put in ada's place",
    })  # fmt: skip
    assert files == {BOS: b"of bo"}
    assert "neither as Moodle nor as Canvas" in found.refused[0]


def test_a_file_named_like_those_of_moodle_costs_nobody_else_anything_in_an_archive_of_canvas(tmp_path: Path) -> None:
    found, files = collected(tmp_path, {
        "lovelaceada_40001_1_Bo ONeil-Müller_7_assignsubmission_file_x.ipynb": b"of ada",
        f"oneilmullerbo_40002_2_{LESSON}.ipynb": b"of bo",
    })  # fmt: skip
    assert files == {BOS: b"of bo"}
    assert found.absent == ["ada"]


def test_a_name_of_60_thousand_characters_is_one_line_at_once(tmp_path: Path) -> None:
    """Marks that have to be put in order: normalizing such a name takes time that grows with its square."""
    marks = "\u0315\u0300" * 8000  # 32 kB; the limit of the format is 64
    with cpu_below(3):
        found, _ = collected(
            tmp_path, {f"a_1_assignsubmission_file/{number}{marks}.ipynb": b"" for number in range(20)}
        )
    assert all("the limit is 1000" in line and len(line) < 300 and "\n" not in line for line in found.refused)


def test_a_number_of_hundreds_of_digits_is_a_part_of_the_name(tmp_path: Path) -> None:
    files = {f"lovelaceada_40001_{n}_{LESSON}-{'9' * 900}.ipynb": b"of ada" for n in (1, 2)}
    found, written = collected(tmp_path, files)
    assert written == {}
    assert f"called {LESSON}.ipynb" in found.refused[0]


def test_a_notebook_of_another_lesson_is_left_out_whatever_its_name(tmp_path: Path) -> None:
    other = lessons.released()["02_autograd.ipynb"].read_bytes()
    own = lessons.released()[f"{LESSON}.ipynb"].read_bytes()
    found, files = collected(tmp_path, {
        f"lovelaceada_40001_1_{LESSON}.ipynb": other, "boneil_40002_2_homework.ipynb": own,
    })  # fmt: skip
    assert files == {BOS: own}
    assert "it is a notebook of 02_autograd, and not of 01_tensors" in found.refused[0]
    assert found.absent == ["ada"]


def test_a_notebook_that_is_named_for_another_lesson_is_not_the_only_one(tmp_path: Path) -> None:
    found, files = collected(tmp_path, {"lovelaceada_40001_1_02_autograd.ipynb": b"{}"})
    assert (files, found.notes) == ({}, [])
    assert "it is named for 02_autograd, and not for 01_tensors" in found.refused[0]


def test_the_only_notebook_is_taken_whatever_its_name_and_of_several_none(tmp_path: Path) -> None:
    found, files = collected(tmp_path, {
        "lovelaceada_40001_1_my homework.ipynb": b"of ada",
        "boneil_40002_2_one.ipynb": b"1", "boneil_40002_3_two.ipynb": b"2",
    })  # fmt: skip
    assert files == {ADAS: b"of ada"}
    assert "only notebook" in found.notes[0]
    assert f"called {LESSON}.ipynb" in found.refused[0]
    assert found.absent == ["bo"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (f"zedzoe_49999_1_{LESSON}.ipynb", "not on the roster"),
        (f"Zoe Zed_77_assignsubmission_file/{LESSON}.ipynb", "not on the roster"),
        (f"Participant_77_assignsubmission_file/{LESSON}.ipynb", "not on the roster"),
        (f"{LESSON}.ipynb", "neither as Moodle nor as Canvas"),
        (f"Bo_7_assignsubmission_onlinetext/lovelaceada_40001_9_{LESSON}.ipynb", "neither as Moodle nor as Canvas"),
        (f"{LESSON}_40001_{'1' * 5000}_x.ipynb", "the limit is 1000"),
        (f"../lovelaceada_40001_1_{LESSON}.ipynb", "leaves the archive"),
        (f"/lovelaceada_40001_1_{LESSON}.ipynb", "leaves the archive"),
        (f"C:/lovelaceada_40001_1_{LESSON}.ipynb", "leaves the archive"),
        (f"Ada Lovelace_1_assignsubmission_file/../../../{LESSON}.ipynb", "leaves the archive"),
        (f"lovelaceada_40001_1_..\\..\\{LESSON}.ipynb", "leaves the archive"),
    ],
)
def test_what_is_unknown_or_unsafe_is_named_and_the_rest_goes_on(tmp_path: Path, name: str, why: str) -> None:
    moodle = "_assignsubmission_" in name
    honest = f"Bo ONeil-Müller_2_assignsubmission_file/{LESSON}.ipynb" if moodle else f"bo_40002_2_{LESSON}.ipynb"
    found, files = collected(tmp_path, {name: b"bad", honest: b"of bo"})
    assert files == {BOS: b"of bo"}
    assert len(found.refused) == 1
    assert why in found.refused[0]
    assert LESSON in found.refused[0]


@pytest.mark.parametrize("name", ["", "\0.ipynb"])
def test_an_entry_without_a_name_costs_nobody_else_anything(tmp_path: Path, name: str) -> None:
    _, files = collected(tmp_path, {name: b"bad", f"bo_40002_2_{LESSON}.ipynb": b"of bo"})
    assert files == {BOS: b"of bo"}


def test_two_of_one_name_are_told_apart_by_canvas_and_not_guessed_for_moodle(tmp_path: Path) -> None:
    members = (ADA, BO, TWIN)
    _, files = collected(tmp_path, {f"lovelaceada_40003_1_{LESSON}.ipynb": b"of the twin"}, members)
    assert files == {f"twin/{LESSON}/{LESSON}.ipynb": b"of the twin"}
    found, _ = collected(tmp_path, {f"Ada Lovelace_5_assignsubmission_file/{LESSON}.ipynb": b"of whom"}, members)
    assert "may be by ada, twin" in found.refused[0]


@pytest.mark.parametrize(
    "name", ["Ada Lovelace_{}_assignsubmission_file/{}.ipynb", "lovelaceada_5000{}_90{}_01_tensors.ipynb"]
)
def test_an_account_that_took_somebodys_name_does_not_replace_their_work(tmp_path: Path, name: str) -> None:
    """People can change what a platform calls them, and not the number that it has for them."""
    entries = {name.format(5, LESSON if "/" in name else 1): b"hers", name.format(6, LESSON if "/" in name else 2): b""}
    found, files = collected(tmp_path, entries, (replace(ADA, lms_user_id=""), BO))
    assert files == {}
    assert "several accounts have this name" in found.refused[0]


@pytest.mark.parametrize(("mode", "why"), [(stat.S_IFLNK | 0o777, "a link"), (stat.S_IFIFO | 0o644, "no regular file")])
def test_links_and_devices_are_refused(tmp_path: Path, mode: int, why: str) -> None:
    name = f"lovelaceada_40001_1_{LESSON}.ipynb"
    made = archive(tmp_path, {name: b"/etc/passwd"}, {name: mode})
    found = collect(made, LESSON, tmp_path / "submitted", [ADA])
    assert why in found.refused[0]
    assert not (tmp_path / "submitted").exists()


def test_bombs_are_refused_also_when_the_header_lies(tmp_path: Path) -> None:
    name, honest = f"lovelaceada_40001_1_{LESSON}.ipynb", f"bo_40002_2_{LESSON}.ipynb"
    made = archive(tmp_path, {name: b"0" * (LIMITS.notebook_bytes + 1), honest: b"0" * 1_000_000})
    found = collect(made, LESSON, tmp_path / "submitted", [ADA, BO])
    assert f"the limit is {LIMITS.notebook_bytes}" in found.refused[0]
    assert "as no notebook does" in found.refused[1]
    data = bytearray(made.read_bytes())
    real = (LIMITS.notebook_bytes + 1).to_bytes(4, "little")
    while (place := data.find(real)) >= 0:
        data[place : place + 4] = (1000).to_bytes(4, "little")
    made.write_bytes(data)
    found = collect(made, LESSON, tmp_path / "submitted", [ADA])
    assert len(found.refused) == 2
    assert "cannot be unpacked" in " ".join(found.refused)
    assert not (tmp_path / "submitted").exists()


def test_encrypted_entries_are_refused(tmp_path: Path) -> None:
    made = archive(tmp_path, {f"lovelaceada_40001_1_{LESSON}.ipynb": b"secret"})
    data = bytearray(made.read_bytes())
    data[data.find(b"PK\x03\x04") + 6] |= 1
    data[data.find(b"PK\x01\x02") + 8] |= 1
    made.write_bytes(data)
    assert "encrypted" in collect(made, LESSON, tmp_path / "submitted", [ADA]).refused[0]


def test_the_command_says_whose_notebook_was_replaced(tmp_path: Path) -> None:
    (tmp_path / "roster.csv").write_text("id,first_name,last_name,lms_user_id\nada,Ada,Lovelace,40001\n")
    for content in (b"first", b"second"):
        files = archive(tmp_path, {f"lovelaceada_40001_1_{LESSON}.ipynb": content})
        _, output = run_instructors("collect", files, "--lesson", LESSON, "--into", tmp_path / "submitted")
    assert f"is in {tmp_path / 'submitted' / '.replaced'}: ada" in output


def test_what_is_replaced_is_kept(tmp_path: Path) -> None:
    name = f"lovelaceada_40001_{{}}_{LESSON}.ipynb"
    collected(tmp_path, {name.format(1): b"first"})
    (tmp_path / "submitted" / "ada" / LESSON / "timestamp.txt").write_text("2026-11-20 12:00:00 UTC")
    found, files = collected(tmp_path, {name.format(2): b"second"})
    assert found.replaced == ["ada"]
    kept = f".replaced/ada/{LESSON}"
    assert files == {ADAS: b"second", f"{kept}/1.ipynb": b"first", f"{kept}/1.txt": b"2026-11-20 12:00:00 UTC"}
    found, files = collected(tmp_path, {name.format(3): b"second"})
    assert (found.same, len(files)) == (["ada"], 3)


def test_a_link_where_a_submission_belongs_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "submitted").mkdir()
    (tmp_path / "submitted" / "ada").symlink_to(tmp_path / "elsewhere")
    found, _ = collected(tmp_path, {f"lovelaceada_40001_1_{LESSON}.ipynb": b"of ada"})
    assert "behind a link" in found.refused[0]
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("data", [b"", b"no zip", b"PK\x03\x04" + b"\0" * 100])
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "submissions.zip"
    path.write_bytes(data)
    with pytest.raises(CollectError, match="cannot be read as a zip file"):
        collect(path, LESSON, tmp_path / "submitted", [ADA])


def test_an_archive_that_was_cut_or_damaged_loses_only_what_is_damaged(tmp_path: Path) -> None:
    made = archive(tmp_path, {
        f"lovelaceada_40001_1_{LESSON}.ipynb": b"a" * 50, f"bo_40002_2_{LESSON}.ipynb": b"of bo",
    })  # fmt: skip
    data = bytearray(made.read_bytes())
    data[data.find(b"PK\x01\x02") + 16] ^= 0xFF  # the sum that ada's bytes are checked by
    made.write_bytes(data)
    found = collect(made, LESSON, tmp_path / "submitted", [ADA, BO])
    assert found.new == ["bo"]
    assert "cannot be unpacked: Bad CRC-32" in found.refused[0]
    made.write_bytes(made.read_bytes()[:-10])
    with pytest.raises(CollectError):
        collect(made, LESSON, tmp_path / "submitted", [ADA])


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_whose_packed_bytes_are_damaged_loses_only_itself(tmp_path: Path, method: int) -> None:
    made = tmp_path / "submissions.zip"
    with zipfile.ZipFile(made, "w", method) as opened:
        opened.writestr(f"lovelaceada_40001_1_{LESSON}.ipynb", bytes(range(256)))
        opened.writestr(f"bo_40002_2_{LESSON}.ipynb", b"of bo")
    data = bytearray(made.read_bytes())
    begin = data.find(b".ipynb") + len(b".ipynb")
    data[begin + 6 : begin + 30] = b"\xff" * 24
    made.write_bytes(data)
    found = collect(made, LESSON, tmp_path / "submitted", [ADA, BO])
    assert found.new == ["bo"]
    assert "cannot be unpacked" in found.refused[0]


def test_the_command_says_that_an_archive_has_no_times(tmp_path: Path) -> None:
    path = archive(tmp_path, {f"Ada Lovelace_1_assignsubmission_file/{LESSON}.ipynb": b"of ada"})
    (tmp_path / "roster.csv").write_text("id,first_name,last_name\nada,Ada,Lovelace\n")
    words = "collect", path, "--lesson", LESSON, "--into", tmp_path / "submitted"
    status, said = run_instructors(*words)
    assert status == 0
    assert "does not say when these were handed in, so none of them counts as late" in said
    assert f"{LESSON}/timestamp.txt" in said
    assert "handed in" not in run_instructors(*words)[1], "there is nothing new"


def test_an_archive_without_anybodys_notebook_is_an_error(tmp_path: Path) -> None:
    path = archive(tmp_path, {f"Eve Unknown_1_assignsubmission_file/{LESSON}.ipynb": b"of eve"})
    (tmp_path / "roster.csv").write_text("id,first_name,last_name\nada,Ada,Lovelace\n")
    status, said = run_instructors("collect", path, "--lesson", LESSON, "--into", tmp_path / "submitted")
    assert status == 2
    assert "its author is not on the roster" in said
    assert f"has no notebook of {LESSON} by anybody on the roster" in said.replace("\n", " ")


def test_a_damaged_roster_stops_collecting_and_names_the_rows(tmp_path: Path) -> None:
    path = archive(tmp_path, {f"adalovelace_7_1_{LESSON}.ipynb": b"of ada"})
    (tmp_path / "roster.csv").write_text("id,lms_user_id\nbo,7\nada,7\n")
    status, said = run_instructors("collect", path, "--lesson", LESSON, "--into", tmp_path / "submitted")
    said = said.replace("\n", " ")
    assert status == 2
    assert f"{tmp_path / 'roster.csv'} is damaged" in said
    assert "line 3, ada: 7 is already the lms_user_id of bo in line 2 of " in said
    assert not (tmp_path / "submitted").exists()


def team(name: str, *members: Member) -> tuple[Member, ...]:
    return tuple(replace(member, group=name) for member in members)


def test_a_notebook_of_a_group_counts_for_everybody_in_it_who_has_none(tmp_path: Path) -> None:
    cy = Member("cy", "Cy", "Late", "cy@example.org", "40009")
    members = (*team("Group A", ADA, BO), cy)
    moodle = {f"Group A_77_assignsubmission_file/{LESSON}.ipynb": b"ours"}
    found, files = collected(tmp_path, moodle, members)
    assert (files, found.refused[0].rsplit(": ", 2)[1:]) == (
        {},
        ["its author is a group on the roster", "add --groups."],
    )
    both = {ADAS: b"ours", BOS: b"ours"}
    assert grouped(tmp_path / "moodle", moodle, members)[1] == both
    found, files = grouped(tmp_path / "canvas", {f"x_40002_9_{LESSON}.ipynb": b"ours"}, members)
    assert (files, found.notes) == (both, [f"ada: x_40002_9_{LESSON}.ipynb counts, from the group Group A."])
    assert found.absent == ["cy"]
    own = {f"x_40002_9_{LESSON}.ipynb": b"bo's", f"x_40001_8_{LESSON}.ipynb": b"ada's"}
    assert grouped(tmp_path / "own", own, members)[1] == {ADAS: b"ada's", BOS: b"bo's"}


@pytest.mark.parametrize("name", ["Group A-Ada Lovelace", "group a-Lovelace Ada", "Default group-Ada Lovelace"])
def test_moodle_puts_the_group_in_front_of_a_name(tmp_path: Path, name: str) -> None:
    entry = {f"{name}_55_assignsubmission_file/{LESSON}.ipynb": b"of ada"}
    assert collected(tmp_path, entry, (*team("Group A", ADA), BO))[1] == {ADAS: b"of ada"}


@pytest.mark.parametrize("name", ["Group B-Ada Lovelace", "Mary-Ada Lovelace"])
def test_a_name_that_ends_like_somebody_elses_is_not_theirs(tmp_path: Path, name: str) -> None:
    entry = {f"{name}_55_assignsubmission_file/{LESSON}.ipynb": b"of whom?"}
    found, files = collected(tmp_path, entry, (*team("Group A", ADA), *team("Group B", BO)))
    assert files == {}
    assert found.refused[0].endswith("its author is not on the roster.")


def test_where_names_are_hidden_the_participants_number_is_the_id_on_the_roster(tmp_path: Path) -> None:
    members = Member("participant-101"), *team("Group 3", Member("Participant-102")), Member("103", "Parti", "cipant")
    files = {
        f"Participant 101_101_assignsubmission_file/{LESSON}.ipynb": b"one",
        f"Group 3-Participant_102_assignsubmission_file/{LESSON}.ipynb": b"two",
        f"Participant_104_assignsubmission_file/{LESSON}.ipynb": b"whose?",
    }
    found, written = collected(tmp_path, files, members)
    assert written == {
        f"participant-101/{LESSON}/{LESSON}.ipynb": b"one",
        f"Participant-102/{LESSON}/{LESSON}.ipynb": b"two",
    }
    assert [reason.split("_")[1] for reason in found.refused] == ["104"]


def grouped(tmp_path: Path, files: Files, members: tuple[Member, ...]) -> tuple[Collected, Files]:
    """Collect with groups; the names for the platform are left out of the files."""
    tmp_path.mkdir()
    into = tmp_path / "submitted"
    found = collect(archive(tmp_path, files), LESSON, into, members, groups=True)
    return found, {str(p.relative_to(into)): p.read_bytes() for p in into.rglob("*.ipynb")}
