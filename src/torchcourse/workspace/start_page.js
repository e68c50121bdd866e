// Runs the cell that this script is an output of when JupyterLab opens the page: its table then follows the progress.
// And leads to the cell that a link names: JupyterLab stays at the top of a notebook whose tab it has not drawn yet.
((drawn) => {
  if (!window.jupyterapp) return;
  const runOnce = (tries) => {
    const panel = [...window.jupyterapp.shell.widgets("main")].find(({node}) => node.contains(drawn));
    if (!panel) return tries ? setTimeout(runOnce, 500, tries - 1) : undefined; // the page is still being opened
    const {outputArea, model} = panel.content.widgets.find(({node}) => node.contains(drawn));
    if (panel.node.dataset.hasRun) { // the output of a run has this script, too
      const {future} = outputArea;
      if (future) future.onIOPub = unasked(panel, future.onIOPub);
      return;
    }
    panel.node.dataset.hasRun = true;
    panel.sessionContext.ready.then(() => run(panel, outputArea, model.sharedModel.source));
  };

  const run = (panel, outputArea, code) => {
    // not disposed of at its end: the updates come after it
    const future = panel.sessionContext.session.kernel.requestExecute({code, store_history: false}, false);
    const messages = [];
    // The old table stays until the new one is there: what JupyterLab saves meanwhile would have none.
    const showAll = unasked(panel, () => {
      outputArea.future = future;
      messages.forEach((message) => future.onIOPub(message));
    });
    future.onIOPub = (message) => {
      messages.push(message);
      if (message.content.execution_state === "idle") showAll();
    };
  };

  // Nobody typed what the kernel shows: JupyterLab need not ask whether to save it when the page is closed.
  const unasked = ({context}, show) => (message) => {
    const {dirty} = context.model;
    show(message);
    if (!dirty) context.model.dirty = false;
  };

  const listenOnce = () => { // before the page has been opened: links may be clicked as soon as they are drawn
    if (window.torchcourse) return;
    window.torchcourse = {acts: 0}; // how often somebody has scrolled, pressed or typed
    window.addEventListener("click", follow, true);
    for (const act of ["wheel", "pointerdown", "keydown"]) {
      window.addEventListener(act, () => window.torchcourse.acts++, true);
    }
  };

  const follow = ({target}) => {
    const [, cellId] = target.closest("a[href]")?.href.match(/#cell-id=(.+)$/) ?? [];
    if (cellId) setTimeout(show, 300, decodeURIComponent(cellId), 400, 400); // two minutes: machines may be slow
  };

  const show = (cellId, waits, tries, actsBefore = window.torchcourse.acts) => {
    const content = window.jupyterapp.shell.currentWidget?.content;
    const index = content?.model?.sharedModel?.cells?.findIndex((cell) => cell.getId() === cellId) ?? -1;
    if (index < 0) return waits && setTimeout(show, 300, cellId, waits - 1, tries); // the notebook is being opened
    const {acts} = window.torchcourse;
    if (acts !== actsBefore) return; // somebody has moved on
    const view = content.node.getBoundingClientRect();
    const {top} = content.widgets[index]?.node.getBoundingClientRect() ?? {};
    const isInView = top > view.top - 5 && top < view.top + view.height / 2;
    content.activeCellIndex = index;
    if (!isInView) content.scrollToItem(index, "start");
    if (tries) setTimeout(show, 300, cellId, 0, tries - 1, acts); // what is drawn above it later moves it again
  };

  listenOnce();
  runOnce(20);
})(document.currentScript);
