// Runs the cell that this script is an output of when JupyterLab opens the page: its table then follows the progress.
// And leads to the cell that a link names: JupyterLab stays at the top of a notebook whose tab it has not drawn yet.
((drawn) => {
  if (!window.jupyterapp) return;
  const runOnce = (tries) => {
    const panel = [...window.jupyterapp.shell.widgets("main")].find(({node}) => node.contains(drawn));
    if (!panel) return tries ? setTimeout(runOnce, 500, tries - 1) : undefined; // the page is still being opened
    if (panel.node.dataset.hasRun) return; // the output of that run has this script, too
    panel.node.dataset.hasRun = true;
    panel.node.addEventListener("click", follow);
    const {outputArea, model} = panel.content.widgets.find(({node}) => node.contains(drawn));
    const run = ({session}) => {
      const code = model.sharedModel.source;
      // not disposed of at its end: the updates come after it
      outputArea.future = session.kernel.requestExecute({code, store_history: false}, false);
    };
    panel.sessionContext.ready.then(() => run(panel.sessionContext));
  };

  const follow = ({target}) => {
    const [, cellId] = target.closest("a[href]")?.href.match(/#cell-id=(.+)$/) ?? [];
    if (cellId) setTimeout(show, 300, decodeURIComponent(cellId), 20, 0);
  };

  const show = (cellId, tries, inView) => {
    const content = window.jupyterapp.shell.currentWidget?.content;
    const index = content?.model?.sharedModel?.cells?.findIndex((cell) => cell.getId() === cellId) ?? -1;
    const {top} = content?.widgets?.[index]?.node.getBoundingClientRect() ?? {};
    const isInView = top > 0 && top < window.innerHeight / 2;
    if (index >= 0 && !isInView) {
      content.activeCellIndex = index;
      content.scrollToItem(index, "start");
    }
    // what is drawn above it later moves it again
    if (tries && inView < 3) setTimeout(show, 300, cellId, tries - 1, isInView ? inView + 1 : 0);
  };

  runOnce(20);
})(document.currentScript);
