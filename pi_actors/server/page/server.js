// The server: requests with the token, and streams that come back by themselves after an interruption.

const TOKEN = "pi-actors-token";
const SILENCE_MS = 45_000; // a server says something every 15 s
const PAUSE_MIN_MS = 250;
const PAUSE_MAX_MS = 8_000;

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
    this.passes = status >= 500 || status === 408 || status === 429;
  }
}

// How far this browser's clock is ahead of the server's, and who asks people for the token.
export const clock = { aheadMs: 0 };
export const door = { askToken: async (_wrong) => "" };
let asking = null;

export const sessionPath = (session) => `sessions/${encodeURIComponent(session)}`;
export const agentPath = (session, agent) => `${sessionPath(session)}/agents/${agent}`;
export const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export async function get(path, signal) {
  return (await ask(path, { signal })).json();
}

export async function post(path, body) {
  const headers = { "content-type": "application/json" };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

// Take all that a stream tells, reconnecting until *signal*, or until the server refuses for good.
// *tell* hears "connecting", "live", "waiting" (with the reason) and "refused" (with the reason).
export async function follow(path, { query, take, tell, signal }) {
  let pause = PAUSE_MIN_MS;
  while (!signal.aborted) {
    tell("connecting");
    let problem = "the server ended the connection";
    try {
      for await (const { type, data } of events(`${path}?${new URLSearchParams(query())}`, signal)) {
        if (type === "end") throw new Refusal(503, JSON.parse(data).error.message);
        if (type === "message") take(JSON.parse(data));
        tell("live");
        pause = PAUSE_MIN_MS;
      }
    } catch (error) {
      if (error instanceof Refusal && !error.passes) return signal.aborted || tell("refused", error.message);
      problem = error.message;
    }
    if (signal.aborted) return;
    tell("waiting", problem);
    await rest(pause * (0.5 + Math.random() / 2), signal);
    pause = Math.min(2 * pause, PAUSE_MAX_MS);
  }
}

async function* events(path, signal) {
  const silence = new AbortController();
  const response = await ask(path, { signal: AbortSignal.any([signal, silence.signal]) });
  yield { type: "open" };
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const timer = setTimeout(() => silence.abort(new Error("the server fell silent")), SILENCE_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (done) return;
      let from = Math.max(0, text.length - 1);
      text += value;
      for (let end; (end = text.indexOf("\n\n", from)) >= 0; from = 0) {
        const event = eventOf(text.slice(0, end));
        text = text.slice(end + 2);
        if (event.data) yield event;
      }
    }
  } finally {
    silence.abort();
  }
}

function eventOf(block) {
  const event = { type: "message", data: "" };
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) event.type = line.slice(7);
    if (line.startsWith("data: ")) event.data += line.slice(6);
  }
  return event;
}

async function ask(path, options) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = { ...options.headers, ...(token && { authorization: `Bearer ${token}` }) };
    const response = await fetch(path, { ...options, headers, cache: "no-store" }).catch((error) => {
      throw error instanceof TypeError ? new Error("the server cannot be reached") : error;
    });
    clock.aheadMs = Date.now() - (Date.parse(response.headers.get("date")) || Date.now());
    if (response.ok) return response;
    if (response.status !== 401) throw new Refusal(response.status, await reasonOf(response));
    if (sessionStorage.getItem(TOKEN) !== token) continue; // somebody has told it meanwhile
    asking ??= door.askToken(token !== null).finally(() => (asking = null));
    sessionStorage.setItem(TOKEN, await asking);
  }
}

async function reasonOf(response) {
  const told = await response.json().catch(() => null);
  return told?.error?.message ?? `the server answered ${response.status} ${response.statusText}`;
}

function rest(milliseconds, signal) {
  const over = new AbortController();
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", resolve, { signal: over.signal });
    window.addEventListener("online", resolve, { signal: over.signal });
  }).finally(() => over.abort());
}
