"""Learners' C++ is compiled and called in the sandbox: a hostile source gets one clear verdict, and costs nobody else.

Each source ends by itself or is ended by a limit: none asks for more than this machine could give.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from autograde.batch.grading import Graded, grade
from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.hidden.efficiency.rms_norm_cpp import SOURCE
from autograde.source import paths
from autograde.source.script import answers_as_text
from tests.support.sandboxed import running
from torchcourse.probes.native import missing_tools

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_tools()), reason="there is no compiler here"),
]

LESSON, TARGET, OTHER = "13_efficiency", "rms_norm_cpp", "quantize_int8"
FORKS = r"""
#include <sys/wait.h>
#include <unistd.h>
__attribute__((constructor)) static void begin() {
  for (int i = 0; i < 200; i++) {
    if (fork() == 0) { setsid(); sleep(20); _exit(0); }
  }
}
"""
CALLS_OUT = r"""
#include <fstream>
#include <unistd.h>
#include <arpa/inet.h>
#include <sys/socket.h>
__attribute__((constructor)) static void begin() {
  std::ifstream answers("{answers}");
  int line = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(53);
  inet_pton(AF_INET, "8.8.8.8", &place.sin_addr);
  std::ofstream system("/usr/lib/left_behind");
  if (answers.good() || system.good() || connect(line, (sockaddr*)&place, sizeof(place)) == 0) return;
  abort();
}
"""
ENDLESS = r"""
template <long A, long B> struct Many {
  static constexpr long value = Many<A - 1, B * 2>::value + Many<A - 1, B * 2 + 1>::value;
};
template <long B> struct Many<0, B> { static constexpr long value = B; };
static constexpr long never = Many<40, 1>::value;
"""
MANY_ERRORS = "\n".join(f"int a{n} = b{n};" for n in range(100))
HOSTILE = {  # name: (what comes before the right source, the status, words of the message)
    "includes_the_answers": ('#include "{answers}"\n', "error", "No such file or directory"),
    "includes_a_device": ('#include "/dev/zero"\n', "error", "CompilerError"),
    "takes_in_a_file": ('asm(".incbin \\"{answers}\\"");\n', "error", "file not found"),
    "deep_template": (
        "template <int N> struct Deep { static constexpr int v = Deep<N + 1>::v; };\nint deep = Deep<0>::v;\n", "error",
        "instantiation depth exceeds maximum",
    ),
    "endless_template": (ENDLESS, "error", "the compiler needed more than 30 seconds or 2 GB, and was ended"),
    "pragma_error": ("#pragma GCC error \"sesame\"\n", "error", "sesame"),
    "pragma_poison": ("#pragma GCC poison double\n", "error", "poisoned"),
    "pragma_include_loop": ('#pragma GCC system_header\n#include "rms_norm.cpp"\n', "error", "CompilerError"),
    "constructor_exits": ('#include <unistd.h>\n__attribute__((constructor)) static void b() { _exit(0); }\n', "error",
                          "Crash: the process exited (0)"),
    "constructor_aborts": ('#include <cstdlib>\n__attribute__((constructor)) static void b() { abort(); }\n', "error",
                           "Crash: the process ended with SIGABRT"),
    "constructor_hangs": ("__attribute__((constructor)) static void b() { for (volatile int i = 0;; i = i + 1) {} }\n",
                          "error", "Timeout: the call did not end"),
    "forks": (FORKS, "error", "Crash: the call left processes running, which were ended"),
    "constructor_calls_out": (CALLS_OUT, "error", "Crash: the process ended with SIGABRT"),
}  # fmt: skip


def answers(source: str) -> dict[str, str]:
    """Return the answers of somebody whose C++ is this."""
    right = answers_as_text(paths.SOLUTIONS / f"{LESSON}.py")
    return {OTHER: right[OTHER], TARGET: f"def rms_norm_cpp() -> str:\n    return {source!r}\n"}


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graded]:
    folder, out = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("graded")
    hidden = str(paths.SOLUTIONS / f"{LESSON}.py")
    sources = {name: first.replace("{answers}", hidden) + SOURCE for name, (first, *_) in HOSTILE.items()}
    sources |= {"many_errors": MANY_ERRORS, "honest": SOURCE, "zz_honest": SOURCE}
    for name, source in sources.items():
        write_notebook(folder, name, LESSON, answered_notebook(LESSON, answers(source)))
    return {g.submission.student: g for g in grade([LESSON], folder, out, workers=1)}


def verdict(graded: dict[str, Graded], name: str, exercise: str = TARGET) -> tuple[str, float, str]:
    found = next(v for v in graded[name].verdicts if v.exercise == exercise)
    return found.status, found.score, found.message


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_source_gets_one_clear_verdict(graded: dict[str, Graded], name: str) -> None:
    _, status, words = HOSTILE[name]
    found, score, message = verdict(graded, name)
    assert found == status, message
    assert score == 0
    assert words in message
    assert verdict(graded, name, OTHER)[0] == "passed"


def test_processes_that_a_library_starts_end_with_its_submission(graded: dict[str, Graded]) -> None:
    assert verdict(graded, "forks")[0] == "error"
    assert not running("autograde.sandbox.inside")


def test_what_the_compiler_says_of_a_source_reaches_its_author_in_full(graded: dict[str, Graded]) -> None:
    first, *lines = verdict(graded, "many_errors")[2].splitlines()
    assert first.endswith("the answer raised CompilerError: the compiler says")
    assert [line for line in lines if "error:" in line][99].startswith("rms_norm.cpp:100:11: error: 'b99'")


@pytest.mark.parametrize("name", ["honest", "zz_honest"])
def test_an_honest_source_passes_before_and_after_them(graded: dict[str, Graded], name: str) -> None:
    assert verdict(graded, name)[0] == "passed"


def test_the_course_was_not_touched(graded: dict[str, Graded]) -> None:
    assert graded
    assert not Path("/usr/lib/left_behind").exists()
