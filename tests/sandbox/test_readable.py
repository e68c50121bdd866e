"""What submissions may read where libraries lie in another environment than Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograde.sandbox import configuration


def test_an_environment_that_a_pth_file_adds_is_readable_and_a_checkout_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, checkout = tmp_path / "shared" / "site-packages", tmp_path / "checkout"
    for place, name in ((shared, "lib_in_layer"), (checkout, "lib_in_checkout")):
        (place / name).mkdir(parents=True)
        (place / name / "__init__.py").touch()
        monkeypatch.syspath_prepend(place)
    monkeypatch.setattr(configuration, "LIBRARIES", ("lib_in_layer", "lib_in_checkout", "not_there_at_all"))
    readable = configuration.readable()
    assert str(shared) in readable
    assert not [path for path in readable if path.startswith(str(checkout))]
