// Draws dashboards in Chromium: node draw.mjs JOBS.json. One browser for all of them.
//
// JOBS.json: what browser.mjs wants, and {page, jobs: [{drawing, png, facts, width, mode}]}; what is drawn is read from
// `drawing`, the picture goes to `png` (empty: none), and what a person would read to `facts`.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { launch, LIMIT_MS } from './browser.mjs';

const order = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const { page: html, modules, jobs } = order;
const ORIGIN = 'http://dashboards.invalid/'; // nobody is asked: each file comes from the disk
const ICONS = /\/img\/icons\/(.+\.svg)$/;

// Every text with its colour, the colour behind it, and whether it is cut; every link; whether a plot has lines.
function facts() {
  const seen = (element) => element.getClientRects().length > 0;
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const { backgroundColor, backgroundImage } = getComputedStyle(one);
      if (backgroundImage !== 'none') {
        return backgroundImage;
      }
      if (!/^(transparent|rgba\(.*, 0\))$/.test(backgroundColor)) {
        return backgroundColor;
      }
    }
    return '';
  };
  const cut = (element, range) => {
    const box = range.getBoundingClientRect();
    for (let one = element; one && !one.dataset?.panel; one = one.parentElement) {
      const { overflowX } = getComputedStyle(one);
      const its = one.getBoundingClientRect();
      if (overflowX !== 'visible' && (box.right > its.right + 1 || box.left < its.left - 1)) {
        return true;
      }
    }
    return false;
  };
  const texts = (root) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const element = node.parentElement;
      const text = node.textContent.trim();
      if (text && seen(element) && getComputedStyle(element).visibility !== 'hidden') {
        const range = document.createRange();
        range.selectNodeContents(node);
        found.push({ text, color: getComputedStyle(element).color, behind: behind(element), cut: cut(element, range) });
      }
    }
    return found;
  };
  const painted = (canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return data.some((value, at) => at % 4 === 3 && value > 0);
  };
  const links = (root) => [...root.querySelectorAll('a[href]')].map((a) => ({ href: a.getAttribute('href'), text: a.textContent.trim() }));
  return {
    links: links(document.querySelector('nav')),
    panels: [...document.querySelectorAll('[data-panel]')].map((panel) => ({
      title: panel.dataset.panel,
      kind: panel.dataset.kind,
      nothing: !!panel.querySelector('[data-nothing]'),
      not_here: !!panel.querySelector('[data-not-here]'),
      broken: panel.querySelector('[data-broken]')?.textContent ?? '',
      painted: [...panel.querySelectorAll('canvas')].some(painted),
      texts: texts(panel),
      rows: [...panel.querySelectorAll('[role=row]')].map((row) => [...row.querySelectorAll('[role=gridcell],[role=columnheader]')].map((cell) => cell.innerText.trim())),
      links: links(panel),
      annotations: [...panel.querySelectorAll('[data-annotation]')].map((mark) => ({ text: mark.dataset.annotation, color: getComputedStyle(mark).color })),
    })),
  };
}

const browser = await launch(order);

async function open(width, complaints) {
  const page = await browser.newPage({ viewport: { width, height: 800 }, timezoneId: 'UTC', locale: 'en-GB' });
  page.setDefaultTimeout(LIMIT_MS);
  page.on('pageerror', (error) => complaints.push(String(error.stack)));
  page.on('console', (message) => message.type() === 'error' && !/404/.test(message.text()) && complaints.push(message.text()));
  await page.route('**', (route) => {
    const { pathname } = new URL(route.request().url());
    const icon = pathname.match(ICONS);
    const path = icon ? join(modules, '@grafana/ui/dist/public/img/icons', icon[1]) : join(dirname(html), basename(pathname));
    return existsSync(path) ? route.fulfill({ path }) : route.fulfill({ status: 404 }); // Grafana's fonts; the page has its own
  });
  await page.goto(`${ORIGIN}index.html`);
  return page;
}

try {
  const complaints = [];
  let page, look; // pages of one width and theme share a tab, since Chromium takes a second to read Grafana's panels
  for (const job of jobs) {
    if (job.png || look !== `${job.width} ${job.mode}`) { // a new tab tells when the icons of a picture are there
      await page?.close();
      page = await open(job.width, complaints);
      look = `${job.width} ${job.mode}`;
    }
    complaints.length = 0;
    await page.setViewportSize({ width: job.width, height: 800 });
    const height = await page.evaluate(([drawing, options]) => window.draw(drawing, options), [
      JSON.parse(readFileSync(job.drawing, 'utf8')), { width: job.width, mode: job.mode },
    ]);
    await page.setViewportSize({ width: job.width, height: Math.min(height, 8000) });
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)))));
    writeFileSync(job.facts, JSON.stringify({ ...(await page.evaluate(facts)), complaints }, null, 1));
    if (job.png) {
      await page.waitForLoadState('networkidle'); // icons
      await page.screenshot({ path: job.png });
    }
  }
} finally {
  await browser.close();
}
