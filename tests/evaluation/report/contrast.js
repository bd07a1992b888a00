// Contrast as WCAG 2.1 defines it, of the colours of numbers and their intervals on every shade.
const channel = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
const rgb = text => text.match(/[\d.]+/g).map(Number);
const weights = [0.2126, 0.7152, 0.0722];
const light = text => weights.reduce((sum, weight, i) => sum + weight * channel(rgb(text)[i]), 0);
const cell = document.createElement('td');
cell.innerHTML = '<span class="ci">[1, 2]</span>';
document.querySelector('.strata tbody tr').append(cell);
const paper = getComputedStyle(document.body).backgroundColor;
const names = [0, 1, 2, 3, 4, 5, 6].map(n => 'shade' + n).concat('better', 'worse');
return names.flatMap(name => {
  cell.className = 'num ' + name;
  let behind = getComputedStyle(cell).backgroundColor;
  if (rgb(behind)[3] === 0) behind = paper;
  return [cell, cell.firstChild].map(e => {
    const [a, b] = [light(getComputedStyle(e).color), light(behind)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
});
