// Compactions: the button that begins one, those that go on, and the summaries that they have left.
import { byId, element, plural, setText } from "./dom.js";
import { fillText } from "./parts.js";
import { newId, post } from "./server.js";

const WHY = {
  manual: "as asked",
  background: "in the background",
  blocking: "before the next request",
  overflow: "as the request was refused as too large",
};

// Has the older part of an agent's context summarised, and tells where that came to nothing.
export class Compactor {
  constructor(path, { fail, signal }) {
    Object.assign(this, { path, fail, signal, asked: null, asking: false });
    this.button = byId("compact");
    this.button.addEventListener("click", () => this.begin(null), { signal });
  }

  show(shown = this.shown) {
    this.shown = shown;
    const { position, live, commands } = shown;
    this.button.disabled = !commands || this.asking || live.length > 0;
    // Once the view is past its birth and has it no more, it has ended; the same id asks how.
    const ended = this.asked && position >= this.asked.actor && !live.some(({ actor }) => actor === this.asked.actor);
    if (ended && !this.asking) this.ask();
  }

  begin(instructions) {
    if (this.asked?.instructions !== instructions) this.asked = { instructions, id: newId(), actor: Infinity };
    return this.ask();
  }

  async ask() {
    const { instructions, id } = this.asked;
    this.asking = this.button.disabled = true;
    try {
      const { actor, status, reason, detail } = await post(`${this.path}/compact`, { instructions, request_id: id });
      this.asked = status === "live" ? { instructions, id, actor } : null;
      const why = detail || { aborted: "it was stopped", stale: "the context has moved on meanwhile" }[reason ?? status];
      const fine = status === "live" || (status === "completed" && !reason);
      this.fail(fine ? "" : `Not summarised: ${why ?? reason ?? status}`);
    } catch (error) {
      this.asked.actor = Infinity;
      this.fail(`Not summarised: ${error.message}`);
    }
    this.asking = false;
    if (!this.signal.aborted) this.show();
  }
}

export function liveNote({ trigger, model, part, attempt, due, error }) {
  if (due !== null) {
    const when = element("b");
    when.dataset.due = due;
    return element("p", "note warn", `The summary failed (${error}). Trying again `, when, `: attempt ${attempt + 1}.`);
  }
  const marks = [model, part && `part ${part + 1}`, attempt > 1 && `attempt ${attempt}`].filter(Boolean).join(", ");
  return element("p", "note pulse", `Summarising the older context, ${WHY[trigger]}${marks && `: ${marks}`}`);
}

export function makeSummary() {
  const head = element("summary", "", element("b", "", "Context summarised"), element("small"));
  return element("li", "compaction", element("details", "", head, element("div", "text")), element("footer"));
}

// *entries*: all of the transcript, to count those that stayed.
export function fillSummary(node, entry, entries) {
  const [details, footer] = node.children;
  const { tokens_before: tokens, trigger } = entry.data ?? {};
  const kept = entries.filter(({ id }) => entry.head <= id && id < entry.id).length;
  const marks = [tokens && `about ${plural(tokens, "token")} before`, `the newest ${kept === 1 ? "entry" : plural(kept, "entry", "entries")} kept`, WHY[trigger]];
  setText(details.firstElementChild.lastElementChild, marks.filter(Boolean).join(" · "));
  const parts = (entry.messages ?? []).flatMap((message) => message.parts);
  fillText(details.lastElementChild, parts.map(({ text }) => text ?? "").join("\n\n"));
  setText(footer, `What came before entry ${entry.head} is in the log; the timeline below goes back to it.`);
  node.title = new Date(entry.at).toLocaleString();
}
