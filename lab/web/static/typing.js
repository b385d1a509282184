// Typing at a console without loading the page again; the console is given back when the page closes.
"use strict";
const typing = document.getElementById("typing");
const holdButton = document.getElementById("hold");
const typingState = document.getElementById("typing-state");

async function send(form) {
  const answer = await fetch(form.action, {
    method: "POST",
    headers: { "X-CSRF-Token": form.csrf.value, "Content-Type": "application/x-www-form-urlencoded", Accept: "text/html" },
    body: new URLSearchParams({ line: form.line.value, end: form.end.value }),
    redirect: "manual",
  });
  if (answer.type !== "opaqueredirect" && !answer.ok) throw new Error(`nothing was sent (${answer.status}); load the page again to see why`);
}

let holding = null;
async function hold(form) {
  holding = new AbortController();
  const answer = await fetch(form.dataset.hold, {
    method: "POST",
    headers: { "X-CSRF-Token": form.csrf.value },
    signal: holding.signal,
  });
  if (!answer.ok) throw new Error(`the console is somebody else's now (${answer.status})`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    if (value.includes("event: held")) {
      holdButton.setAttribute("aria-pressed", "true");
      holdButton.textContent = "Give the console back";
      typingState.textContent = "You have the console until this page closes.";
    }
    if (value.includes("event: released")) throw new Error("the reservation has ended");
  }
}

if (typing) {
  holdButton.hidden = false;
  typing.addEventListener("submit", (event) => {
    event.preventDefault();
    send(typing).then(
      () => { typing.line.value = ""; typingState.textContent = holding ? "Sent; you have the console." : "Sent."; },
      (error) => { typingState.textContent = error.message; },
    );
  });
  holdButton.addEventListener("click", () => {
    if (holding) { holding.abort(); return; }
    hold(typing).catch((error) => (error.name === "AbortError" ? "You gave the console back." : error.message)).then((said) => {
      holding = null;
      holdButton.setAttribute("aria-pressed", "false");
      holdButton.textContent = "Hold the console";
      typingState.textContent = said || "You gave the console back.";
    });
  });
}
