// Elements from text and other elements. What comes from a session is only ever text, never markup.

export const byId = (id) => document.getElementById(id);

export function element(name, className = "", ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

export function button(label, className, act) {
  const made = element("button", className, label);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

// Text that grew is added to, so that what a reader has selected stays selected.
export function setText(node, text) {
  const known = node.firstChild;
  if (known?.nodeType !== Node.TEXT_NODE || known.nextSibling) node.textContent = text;
  else if (!text.startsWith(known.data)) known.data = text;
  else if (text.length > known.data.length) known.appendData(text.slice(known.data.length));
}

// The child at *place*, made anew where another kind of thing stands there.
export function childAt(parent, place, type, make) {
  const known = parent.children[place];
  if (known?.dataset.type === type) return known;
  const made = make();
  made.dataset.type = type;
  if (known) known.replaceWith(made);
  else parent.append(made);
  return made;
}

export function cutAfter(parent, count) {
  while (parent.children.length > count) parent.lastElementChild.remove();
}

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString()} ${count === 1 ? one : many}`;
export const timeOf = (at) => new Date(at).toLocaleTimeString();

export function span(milliseconds) {
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

// Write into every element that counts time how long since, or until, its instant.
export function tellTimes(now) {
  for (const node of document.querySelectorAll("[data-since]")) {
    setText(node, `${Math.max(0, Math.floor((now - Date.parse(node.dataset.since)) / 1000))} s`);
  }
  for (const node of document.querySelectorAll("[data-due]")) {
    const left = Math.ceil((Date.parse(node.dataset.due) - now) / 1000);
    setText(node, left > 0 ? `in ${left} s` : "now");
  }
}
