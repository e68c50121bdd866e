// Marks the card before this script as soon as the cell that it judged has other text on the screen.
// JupyterLab and Notebook 7 give scripts their application only if they are told to (`expose_app_in_browser`).
(({cell_id, source}) => {
  const card = document.currentScript?.previousElementSibling;
  const panels = window.jupyterapp ? [...window.jupyterapp.shell.widgets("main")] : [];
  const cells = panels.flatMap((panel) => panel.content?.widgets ?? []);
  const onScreen = cells.find((cell) => cell.model?.id === cell_id)?.model.sharedModel;
  const title = card?.querySelector(".tc-title");
  if (!title || !onScreen) return;

  const note = document.createElement("p");
  note.setAttribute("role", "status");
  note.className = "tc-changed";
  card.prepend(note);
  const wasRight = card.classList.contains("passed");
  const compare = () => {
    const isEdited = onScreen.source.trim() !== source;
    note.textContent = isEdited ? "Checked an earlier version: the cell has changed since. Run it, then check again." : "";
    note.hidden = !isEdited;
    if (wasRight) {
      title.hidden = isEdited;
      card.classList.toggle("passed", !isEdited);
    }
  };
  const followers = (window.torchcourseFollowers ??= new Map());
  followers.get(cell_id)?.(); // the card of an earlier check
  onScreen.changed.connect(compare);
  followers.set(cell_id, () => onScreen.changed.disconnect(compare));
  compare();
})(JUDGED);
