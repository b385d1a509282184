// Starts the Chromium that tools/npm_browser.py unpacked: `order` says where it, its libraries and its fonts are.
import { createRequire } from 'node:module';

export const LIMIT_MS = 60_000;

export function launch({ chromium, libraries, fonts, modules }) {
  return createRequire(`${modules}/`)('playwright-core').chromium.launch({
    executablePath: chromium,
    args: ['--no-sandbox', '--disable-gpu', '--no-zygote', '--font-render-hinting=none', '--force-color-profile=srgb'],
    env: { ...process.env, LD_LIBRARY_PATH: libraries, FONTCONFIG_PATH: fonts },
    timeout: LIMIT_MS,
  });
}
