"""Pack the lessons' notebooks, which lie beside the package, into it; everything else is in pyproject.toml."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithNotebooks(build_py):
    """Build the package with the notebooks in `torchcourse/notebooks/`. An editable one reads them where they lie."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        notebooks = sorted(Path("notebooks").glob("*.ipynb"))
        if not notebooks:
            raise FileNotFoundError("notebooks/ holds no lessons: build from the repository's root.")
        folder = Path(self.build_lib) / "torchcourse" / "notebooks"
        folder.mkdir(parents=True, exist_ok=True)
        for notebook in notebooks:
            shutil.copyfile(notebook, folder / notebook.name)


setup(cmdclass={"build_py": WithNotebooks})
