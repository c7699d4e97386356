// The transcript: one row for each entry, the answer that is being written, and what comes next.
import { fillSummary, liveNote, makeSummary } from "./compactions.js";
import { button, element, setText, timeOf } from "./dom.js";
import { fillParts } from "./parts.js";

const WHY_CUT = {
  error: "The model failed",
  aborted: "Stopped",
  length: "Cut off: the answer reached the model's length limit",
};
const HELD = {
  no_model: "no model is chosen",
  model_error: "the model failed",
  recovery_exhausted: "it was interrupted too often",
};
const WRITING = "live";

export class Transcript {
  constructor(list, next, withdraw) {
    this.list = list;
    this.next = next;
    this.withdraw = withdraw;
    this.rows = new Map();
  }

  // Rows of entries that stayed the same are not touched.
  show(value, commands) {
    const live = value.docs["pi.live"];
    this.learn(value.entries);
    this.slots = new Map(live.tools.map((slot) => [`${slot.entry}:${slot.index}`, slot]));
    const partial = live.generation?.partial ?? [];
    const shown = this.entries.map((entry) => this.rowOf(entry, partial));
    if (partial.length) shown.push(this.writingRow(partial, live.generation));
    this.arrange(shown);
    this.showNext(live, value.docs["pi.inbox"], commands);
  }

  // Results stand with their calls, wherever the call is still part of the transcript.
  learn(entries) {
    if (entries === this.known) return;
    this.known = entries;
    const parts = (entry, type) => partsOf(entry).filter((part) => part.type === type);
    const keys = entries.flatMap((entry) => parts(entry, "call").map((call) => `${entry.id}:${call.index}`));
    const calls = new Set(keys);
    this.results = new Map();
    for (const entry of entries) {
      for (const result of parts(entry, "result")) this.results.set(result.call.join(":"), { result, entry });
    }
    const stands = (entry) => parts(entry, "result").some((result) => calls.has(result.call.join(":")));
    this.entries = entries.filter((entry) => !stands(entry));
  }

  rowOf(entry, partial) {
    const calls = partsOf(entry).filter((part) => part.type === "call").map((part) => this.callOf(entry, part));
    const made = [entry, ...calls.flatMap(({ slot, result }) => [slot, result])];
    const known = this.rows.get(entry.id);
    if (known?.made.every((each, place) => each === made[place])) return entry.id;
    const node = known?.node ?? this.adopted(entry, partial) ?? makeRow(entry);
    if (entry.kind === "pi.compaction") fillSummary(node, entry, this.known);
    else fillRow(node, entry, (part) => this.callOf(entry, part));
    this.rows.set(entry.id, { node, made });
    return entry.id;
  }

  callOf(entry, part) {
    const key = `${entry.id}:${part.index}`;
    const { result, entry: settled } = this.results.get(key) ?? {};
    return { slot: this.slots.get(key), result, data: settled?.data ?? {}, otherwise: "not run" };
  }

  // The answer that was being written becomes the row of the entry that it is now.
  adopted(entry, partial) {
    const row = this.rows.get(WRITING);
    if (!row || partial.length || entry.kind !== "pi.assistant") return undefined;
    this.rows.delete(WRITING);
    row.node.classList.remove("writing");
    return row.node;
  }

  writingRow(partial, { model, attempt }) {
    const node = this.rows.get(WRITING)?.node ?? element("li", "assistant writing", element("div"), element("footer"));
    fillParts(node.firstElementChild, partial, () => ({ otherwise: "being written" }));
    setText(node.lastElementChild, attempt > 1 ? `${model} is writing, attempt ${attempt}` : `${model} is writing`);
    this.rows.set(WRITING, { node, made: [] });
    return WRITING;
  }

  arrange(shown) {
    const wanted = new Set(shown);
    for (const [key, { node }] of this.rows) {
      if (wanted.has(key)) continue;
      node.remove();
      this.rows.delete(key);
    }
    let place = this.list.firstElementChild;
    for (const key of shown) {
      const { node } = this.rows.get(key);
      if (node === place) place = place.nextElementSibling;
      else this.list.insertBefore(node, place);
    }
  }

  showNext(live, inbox, commands) {
    const asking = live.generation && !live.generation.partial.length && live.generation.model;
    const state = [live.retry, live.compactions, live.unknown, inbox, live.run, commands, asking];
    if (this.told?.every((each, place) => each === state[place])) return;
    this.told = state;
    this.next.replaceChildren(
      ...(asking ? [element("p", "note pulse", `Waiting for ${asking}`)] : []),
      ...(live.retry ? [retryNote(live.retry)] : []),
      ...live.compactions.map(liveNote),
      ...live.unknown.map(({ name }) => element("p", "note warn", `Nobody knows whether ${name} had its effect: it was interrupted.`)),
      ...(inbox.held ? [heldNote(inbox.held)] : []),
      ...(inbox.items.length ? [this.queue(inbox.items, commands)] : []),
    );
  }

  queue(items, commands) {
    const rows = items.map((item) => {
      const summary = item.kind === "pi.compaction";
      const mode = { steer: "steers after the current tools", write: summary ? "takes its place after the current step" : "is noted only" };
      const said = element("q", "", summary ? "A summary of the older context" : item.text || item.kind);
      const text = element("span", "", said, element("small", "", mode[item.mode] ?? "comes when it is done"));
      const withdraw = commands && !summary ? [button("Withdraw", "quiet", () => this.withdraw(item.id))] : [];
      return element("li", "", text, ...withdraw);
    });
    return element("section", "queue", element("h2", "", `Waiting (${items.length})`), element("ul", "", ...rows));
  }
}

function makeRow(entry) {
  if (entry.kind === "pi.assistant") return element("li", "assistant", element("div"), element("footer"));
  if (entry.kind === "pi.user") return element("li", "user", element("div"), element("footer"));
  if (entry.kind === "pi.compaction") return makeSummary();
  const title = { "pi.system": "Instructions" }[entry.kind] ?? entry.kind;
  if (entry.kind === "pi.reset") return element("li", "reset", element("div"), element("footer"));
  const fold = element("details", "fold", element("summary", "", title), element("div"));
  return element("li", "other", fold, element("footer"));
}

function fillRow(node, entry, callOf) {
  const [body, footer] = node.children;
  fillParts(body.localName === "details" ? body.lastElementChild : body, partsOf(entry), callOf);
  const { stop, error, model, usage } = entry.data ?? {};
  const cut = WHY_CUT[stop] && element("strong", stop === "error" ? "bad" : "", error ? `${WHY_CUT[stop]}: ${error}` : WHY_CUT[stop]);
  const tokens = usage ? `${(usage.output ?? 0).toLocaleString()} tokens` : "";
  const facts = model ? [timeOf(entry.at), tokens] : [entry.kind === "pi.reset" ? "A fresh start" : ""];
  footer.replaceChildren(...(cut ? [cut, " · "] : []), facts.filter(Boolean).join(" · "));
  footer.hidden = !footer.textContent;
  node.title = [new Date(entry.at).toLocaleString(), model].filter(Boolean).join(" · ");
}

const partsOf = (entry) => (entry.messages ?? []).flatMap((message) => message.parts);

function retryNote({ attempt, due }) {
  const when = element("b");
  when.dataset.due = due;
  return element("p", "note warn", "Trying again ", when, `: attempt ${attempt}.`);
}

function heldNote({ reason, detail }) {
  const why = `${HELD[reason] ?? reason}${detail ? ` (${detail})` : ""}`;
  return element("p", "note warn", `It has stopped: ${why}. It goes on with the next message you send.`);
}
