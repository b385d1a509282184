// A table that is too wide scrolls in its own box; the box can be reached by the keyboard then.
const reachable = () => {
  for (const box of document.querySelectorAll('.md-typeset__scrollwrap')) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
    } else {
      box.removeAttribute('tabindex');
    }
  }
};
addEventListener('load', () => new ResizeObserver(reachable).observe(document.querySelector('article')));
