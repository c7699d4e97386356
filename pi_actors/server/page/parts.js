// The parts of messages: text, thinking, calls with their output and results, blobs.
import { childAt, cutAfter, element, setText, span } from "./dom.js";

// Show *parts* in *container*, changing what stands there already. *callOf*: what became of a call.
export function fillParts(container, parts, callOf) {
  parts.forEach((part, place) => {
    const node = childAt(container, place, part.type, MAKE[part.type] ?? MAKE.blob);
    if (part.type === "text") fillText(node, part.text);
    else if (part.type === "thinking") setText(node.lastElementChild, part.text);
    else if (part.type === "call") fillCall(node, part, callOf(part));
    else if (part.type === "result") fillCall(node, { name: "result", arguments: "" }, { result: part, data: {} });
    else setText(node, `[${part.media_type}, about ${Math.ceil((part.data.length * 3) / 4)} bytes, not shown here]`);
  });
  cutAfter(container, parts.length);
}

const MAKE = {
  text: () => element("div", "text"),
  thinking: () => element("details", "fold thinking", element("summary", "", "Thinking"), element("p")),
  call: makeCall,
  result: makeCall,
  blob: () => element("p", "note"),
};

// Text with the few marks that models use most: fenced code, `code` and **strong**.
export function fillText(node, text) {
  const blocks = text.split(/^```.*$/m).map((block, place) => [place % 2 ? "pre" : "p", block.replace(/^\n+|\s+$/g, "")]);
  const shown = blocks.filter(([, block]) => block);
  shown.forEach(([name, block], place) => {
    const child = childAt(node, place, name, () => element(name));
    if (name === "pre") setText(child, block);
    else fillInline(child, block);
  });
  cutAfter(node, shown.length);
}

function fillInline(paragraph, text) {
  const pieces = text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/).filter(Boolean);
  pieces.forEach((piece, place) => {
    const marked = piece.match(/^(`|\*\*)(.+)\1$/);
    const name = marked ? { "`": "code", "**": "strong" }[marked[1]] : "span";
    setText(childAt(paragraph, place, name, () => element(name)), marked ? marked[2] : piece);
  });
  cutAfter(paragraph, pieces.length);
}

function makeCall() {
  const head = element("summary", "", element("b"), element("code"), element("span", "state"));
  const output = element("pre", "output");
  output.tabIndex = 0;
  output.ariaLabel = "Output";
  return element("section", "call", element("details", "", head, element("pre")), output, element("ul", "remarks"));
}

function fillCall(card, call, { slot, result, data, otherwise }) {
  const [details, output, remarks] = card.children;
  const [name, brief, state] = details.firstElementChild.children;
  const given = slot?.arguments || call.arguments;
  setText(name, call.name);
  setText(brief, briefly(given));
  card.dataset.state = result ? (result.is_error ? "failed" : "done") : (slot?.state ?? "waiting");
  fillState(state, { slot, result, data, otherwise });
  const told = data?.details ?? slot?.details;
  setText(details.lastElementChild, pretty(given) + (told == null ? "" : `\n\n${JSON.stringify(told, null, 2)}`));
  const atEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 8;
  setText(output, result ? textOf(result) : shownOutput(slot));
  output.hidden = !output.textContent;
  if (slot && atEnd) output.scrollTop = output.scrollHeight;
  const all = result?.diagnostics ?? data?.diagnostics ?? slot?.diagnostics ?? [];
  remarks.replaceChildren(...all.map(({ level, text }) => element("li", level, text)));
}

function fillState(node, { slot, result, data, otherwise }) {
  if (result) {
    const took = data.duration_ms == null ? "" : span(data.duration_ms);
    const why = (data.diagnostics ?? []).find(({ level }) => level === "error")?.code ?? "failed";
    const how = result.is_error ? why.replaceAll("_", " ") : "";
    node.replaceChildren([how, took].filter(Boolean).join(" · ") || "done");
  } else if (slot?.started_at) {
    const since = element("span");
    since.dataset.since = slot.started_at;
    node.replaceChildren(slot.state === "reconciling" ? "finding out what happened " : "running ", since);
  } else {
    node.replaceChildren({ waiting: "waits its turn", pending: "starting" }[slot?.state] ?? otherwise ?? "");
  }
}

function shownOutput(slot) {
  if (!slot) return "";
  return slot.skipped_bytes ? `${slot.output}\n[${slot.skipped_bytes.toLocaleString()} bytes left out]` : slot.output;
}

const textOf = (result) =>
  (result.content ?? []).map((item) => (item.type === "text" ? item.text : `[${item.media_type}]`)).join("\n");

// What a call is about, in a line.
function briefly(text) {
  const values = parsed(text);
  if (values === null || typeof values !== "object") return text.trim();
  const [only, ...others] = Object.values(values);
  const main = values.command ?? values.path ?? values.prompt ?? (others.length ? undefined : only);
  return typeof main === "string" ? main.split("\n", 1)[0] : JSON.stringify(values);
}

function pretty(text) {
  const values = parsed(text);
  if (values === null || typeof values !== "object") return text;
  return Object.entries(values)
    .map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value, null, 2)}`)
    .join("\n");
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null; // still being written, or no JSON at all
  }
}
