// Marks the card before this script as long as the cell that it judged has other text on the screen, or is gone.
// The kernel marks it, too, after a save; the screen is ahead of the saved file, so its text counts.
(({cell_id, source, changed, right, stale}) => {
  const drawn = document.currentScript?.previousElementSibling;
  if (!window.jupyterapp || !drawn?.querySelector(".tc-title")) return;
  if (!drawn.querySelector(".tc-changed")) {
    const note = document.createElement("p");
    Object.assign(note, {className: "tc-changed", textContent: changed, hidden: true});
    note.setAttribute("role", "status");
    drawn.prepend(note);
  }
  const card = new WeakRef(drawn); // a later check, or closing the notebook, removes it
  const hasPassed = drawn.matches(".passed, .stale");

  const cellOf = (notebook) => notebook.sharedModel.cells.find((cell) => cell.getId() === cell_id);
  const compare = (notebook) => {
    const shown = card.deref();
    if (!shown) return notebook.contentChanged.disconnect(compare);
    const isEdited = cellOf(notebook)?.source.trim() !== source;
    shown.querySelector(".tc-changed").hidden = !isEdited;
    if (hasPassed) {
      shown.classList.toggle("passed", !isEdited);
      shown.querySelector(".tc-title").firstChild.data = isEdited ? stale : right;
    }
  };
  const follow = (tries) => {
    const panels = [...window.jupyterapp.shell.widgets("main")];
    const notebook = panels.map((panel) => panel.content?.model).find((model) => model?.sharedModel?.cells && cellOf(model));
    if (notebook) {
      notebook.contentChanged.connect(compare);
      compare(notebook);
    } else if (tries) {
      setTimeout(follow, 500, tries - 1); // the page is still being opened
    }
  };
  follow(20);
})(VALUES);
