// What a click on a table says to Python: which heading, page or row. In the address a page is a sheet: Gradio has
// another use for the word page.
element.addEventListener('click', event => {
  const sort = event.target.closest('[data-sort]'), page = event.target.closest('[data-page]');
  const row = event.target.closest('[data-row]');
  const say = (what, value) => trigger('select', {index: 0, value: [what, value]});
  if (sort) { kbbench({sort: sort.dataset.sort, sheet: ''}); say('sort', sort.dataset.sort); }
  else if (page) { kbbench({sheet: page.dataset.page}); say('page', page.dataset.page); }
  else if (row && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    say('row', row.dataset.row);
  }
});
