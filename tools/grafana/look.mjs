// Opens pages in Chromium and says what is wrong with them: node look.mjs LOOKS.json.
//
// LOOKS.json: what browser.mjs wants, and {found, looks: [{root, path, width, height, mode, scripts, steps, axe, ask, picture, whole}]}. Files come
// from the disk below `root`, nothing from the network; where `root` is
// an address, everything comes from that server. For each look `found` gets {beyond, wide, faults, shifts, complaints, asked, answer}.
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { launch, LIMIT_MS } from './browser.mjs';

const order = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const ORIGIN = 'http://pages.invalid';
const AXE = readFileSync(join(order.modules, 'axe-core/axe.min.js'), 'utf8');
const STILL = '*, *::before, *::after { transition: none !important; animation: none !important; }'; // colours are read when they are there

// How many pixels the page can be scrolled to the right, and what stands out there and is in no box that scrolls by itself.
function measure() {
  const window_ = document.documentElement.clientWidth;
  const boxed = (element) => {
    for (let one = element.parentElement; one && one !== document.body; one = one.parentElement) {
      if (getComputedStyle(one).overflowX !== 'visible') {
        return true;
      }
    }
    return false;
  };
  const beyond = Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - window_;
  const out = (element) => element.getClientRects().length > 0 && element.getBoundingClientRect().right + scrollX > window_ + 0.5 && !boxed(element);
  const name = (element) => `${element.tagName.toLowerCase()}${element.id ? `#${element.id}` : ''} ${element.textContent.trim().slice(0, 60)}`;
  return { beyond, wide: beyond > 0 ? [...document.querySelectorAll('body *')].filter(out).slice(0, 5).map(name) : [] };
}

async function faults() {
  const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
  return violations.map(({ id, impact, help, nodes }) => ({
    id, impact, help, nodes: nodes.slice(0, 5).map(({ html, failureSummary }) => `${html.slice(0, 200)}: ${failureSummary}`),
  }));
}

// What moves in the page though nobody asked for it (Layout Instability, W3C): each shift's score, and what it moved.
function watchShifts() {
  window.shifts = [];
  const name = (node) => (node instanceof Element ? `${node.tagName.toLowerCase()}${node.id ? `#${node.id}` : ''}.${node.className}` : String(node?.nodeName));
  const keep = (list) => {
    for (const { value, hadRecentInput, sources } of list.getEntries()) {
      if (!hadRecentInput) {
        window.shifts.push([value, sources.map(({ node }) => name(node)).join(', ')]);
      }
    }
  };
  new PerformanceObserver(keep).observe({ type: 'layout-shift', buffered: true });
}

async function open(browser, { root, path, width, height, mode, scripts }) {
  const viewport = { width, height };
  const page = await browser.newPage({ viewport, javaScriptEnabled: scripts, colorScheme: mode, reducedMotion: 'reduce', timezoneId: 'UTC', locale: 'en-GB' });
  page.setDefaultTimeout(LIMIT_MS);
  await page.addInitScript(watchShifts);
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error.stack)));
  page.on('console', (message) => message.type() === 'error' && complaints.push(`${message.text()} ${message.location().url}`));
  const asked = [];
  page.on('request', (request) => asked.push(request.url().replace(ORIGIN, '')));
  const served = /^https?:/.test(root);
  await page.route('**', (route) => {
    if (served) {
      return new URL(route.request().url()).origin === root ? route.continue() : route.abort();
    }
    const { origin, pathname } = new URL(route.request().url());
    let file = join(root, decodeURIComponent(pathname));
    if (existsSync(file) && statSync(file).isDirectory()) {
      file = join(file, 'index.html');
    }
    return origin === ORIGIN && existsSync(file) ? route.fulfill({ path: file }) : route.fulfill({ status: 404 });
  });
  await page.goto(`${served ? root : ORIGIN}${path}`);
  if (scripts) {
    await page.addStyleTag({ content: STILL }); // waits for an event of the page
  }
  if (!(await page.evaluate(() => document.createElement('canvas').getContext('2d').measureText('m').width))) {
    throw new Error('no font was found: nothing on this page has a width');
  }
  return { page, complaints, asked };
}

// What shows of an element that it has the focus.
function looksOf(element) {
  return [element, ...[...element.querySelectorAll('*')].slice(0, 8)].map((one) => {
    const { outlineStyle, outlineWidth, outlineColor, stroke, strokeWidth, fill, backgroundColor, boxShadow } = getComputedStyle(one);
    return [outlineStyle, outlineWidth, outlineColor, stroke, strokeWidth, fill, backgroundColor, boxShadow].join();
  }).join(';');
}

// Presses Tab until the page has been walked through: `walked` in the page has each element that got the focus, and whether that showed.
async function walk(page, most) {
  await page.evaluate(`window.looksOf = ${looksOf}; window.walked = [];`);
  for (let n = 0; n < Number(most); n += 1) {
    await page.keyboard.press('Tab');
    const ended = await page.evaluate(() => {
      const last = window.walked.at(-1);
      if (last) {
        last.shows = last.focused !== window.looksOf(last.element);
      }
      const element = document.activeElement;
      if (last?.element === element) {
        return false; // a date has parts
      }
      if (element === document.body || window.walked.some((each) => each.element === element)) {
        return true;
      }
      window.walked.push({ element, focused: window.looksOf(element) });
      return false;
    });
    if (ended) {
      return;
    }
  }
  throw new Error(`Tab did not come round in ${most} steps`);
}

// Clicks what sends a form, and waits for the page that comes back.
async function send(page, selector) {
  const posted = page.waitForResponse((answer) => answer.request().method() === 'POST');
  const [answer] = await Promise.all([posted, page.waitForNavigation(), page.click(selector)]);
  if (answer.status() >= 400) {
    throw new Error(`${answer.url()}: ${answer.status()}: ${await page.innerText('body')}`);
  }
}

const STEPS = {
  click: (page, selector) => page.click(selector),
  focus: (page, selector) => page.focus(selector),
  press: (page, key) => page.keyboard.press(key),
  send,
  run: (page, script) => page.evaluate(script),
  type: (page, text) => page.keyboard.type(text),
  wait: (page, selector) => page.waitForSelector(selector),
  walk,
};

const browser = await launch(order);
const found = [];
let opened = null;
try {
  for (const look of order.looks) {
    const { root, path, mode, scripts } = look;
    const key = JSON.stringify([root, path, mode, scripts]);
    if (opened?.key !== key || opened.stepped || look.steps.length) {
      await opened?.page.close();
      opened = { key, stepped: look.steps.length > 0, ...(await open(browser, look)) };
    }
    const { page, complaints, asked } = opened;
    await page.setViewportSize({ width: look.width, height: look.height });
    if (scripts) {
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    }
    for (const { does, on } of look.steps) {
      await STEPS[does](page, on);
    }
    if (look.axe && !(await page.evaluate(() => 'axe' in window))) {
      await page.evaluate(AXE);
    }
    found.push({
      ...(await page.evaluate(measure)),
      faults: look.axe ? await page.evaluate(faults) : [],
      answer: look.ask ? await page.evaluate(look.ask) : null,
      shifts: scripts ? await page.evaluate(() => window.shifts) : [],
      complaints: [...complaints],
      asked: [...asked],
    });
    if (look.picture) {
      await page.screenshot({ path: look.picture, fullPage: look.whole });
    }
  }
} finally {
  await browser.close();
}
writeFileSync(order.found, JSON.stringify(found, null, 1));
