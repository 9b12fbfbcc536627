// Until the scripts' page has the same to show, this one is seen; where it has not five seconds after it is drawn, too.
{
  const first = document.getElementById("kb-first");
  const leave = () => { watch.disconnect(); first.remove(); };
  let drawn = false;
  const watch = new MutationObserver(() => {
    if (document.querySelector(first.dataset.until)) leave();
    else if (!drawn && (drawn = document.querySelector("gradio-app [role=tab]") !== null)) setTimeout(leave, 5000);
  });
  watch.observe(document.body, {childList: true, subtree: true});
}
