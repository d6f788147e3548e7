// Drives one Chromium for tests/peers/browser.py: a command a line on stdin, an answer a line on stdout.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [modules, chromium_path] = process.argv.slice(2);
const { chromium } = createRequire(modules + "/")("playwright-core");
const browser = await chromium.launch({
  executablePath: chromium_path,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
let page;
let said = [];

const commands = {
  async open({ url, scheme, width, height }) {
    page = await browser.newPage({ colorScheme: scheme, viewport: { width, height } });
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) said.push(message.text());
    });
    page.on("pageerror", (error) => said.push(String(error)));
    await page.goto(url);
  },
  reload: () => page.reload(),
  evaluate: ({ script }) => page.evaluate(script),
  // Not waitForFunction: that evaluates text inside the page, which the page's own policy forbids.
  async until({ script }) {
    for (const end = Date.now() + 30000; Date.now() < end; await page.waitForTimeout(50)) {
      if (await page.evaluate(script)) return;
    }
    throw new Error(`not within 30 s: ${script}\n${await page.evaluate("document.body.innerText")}`);
  },
  fill: ({ selector, text }) => page.fill(selector, text),
  click: ({ selector }) => page.click(selector),
  press: ({ key }) => page.keyboard.press(key),
  screenshot: async ({ path }) => { await page.screenshot({ path }); },
  said: () => said.splice(0),
  close: async () => { await page.close(); },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...given } = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await commands[command](given)) ?? null };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
