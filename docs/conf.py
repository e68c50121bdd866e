"""Settings of Sphinx for the documentation; `make docs` lays out the pages (tools/site.py) and builds them so."""

from torchcourse import __version__

project = "torchcourse"
author = "the torchcourse authors"
project_copyright = author
version = release = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["README.md"]  # index.md includes it

html_theme = "furo"
html_title = f"torchcourse {version}"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
copybutton_exclude = ".linenos, .gp, .go"  # neither prompts nor what a command prints

myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_in_temp = True
nb_execution_timeout = 1800  # seconds for one cell: some train a model, and machines differ
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # they would be fetched, and have no kernel here
WIDGET = "application/vnd.jupyter.widget-view+json"
nb_mime_priority_overrides = [("html", WIDGET, None)]  # their text says what to type, or which controls there are

default_role = "code"  # docstrings write `names` as Markdown does
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
# Nothing is fetched to link to others' pages, and four names of the course's own are no part of its API.
nitpick_ignore_regex = [
    ("py:.*", r"(?!torchcourse\.).*"),
    ("py:class", r"torchcourse\..*\.(Item|CheckedDevice|Machine|Outcome)"),
]
