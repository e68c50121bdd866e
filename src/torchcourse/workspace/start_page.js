// Runs the cell that this script is an output of when JupyterLab opens the page: its table then follows the progress.
((drawn) => {
  if (!window.jupyterapp) return;
  const runOnce = (tries) => {
    const panel = [...window.jupyterapp.shell.widgets("main")].find(({node}) => node.contains(drawn));
    if (!panel) return tries ? setTimeout(runOnce, 500, tries - 1) : undefined; // the page is still being opened
    if (panel.node.dataset.hasRun) return; // the output of that run has this script, too
    panel.node.dataset.hasRun = true;
    const {outputArea, model} = panel.content.widgets.find(({node}) => node.contains(drawn));
    const run = ({session}) => {
      const code = model.sharedModel.source;
      outputArea.future = session.kernel.requestExecute({code, store_history: false}, false); // updates come after its end
    };
    panel.sessionContext.ready.then(() => run(panel.sessionContext));
  };
  runOnce(20);
})(document.currentScript);
