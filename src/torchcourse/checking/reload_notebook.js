// Shows the notebook around this script as it is in its file, unless something in it is not saved yet.
((script, token) => {
  const done = (window.torchcourseReloads ??= new Set()); // what is reloaded shows this script again
  if (done.has(token)) return;
  done.add(token);
  setTimeout(() => {
    const panels = window.jupyterapp ? [...window.jupyterapp.shell.widgets("main")] : [];
    const {context} = panels.find((panel) => panel.node.contains(script)) ?? {};
    if (context && !context.model.dirty) context.revert();
  });
})(document.currentScript, TOKEN);
