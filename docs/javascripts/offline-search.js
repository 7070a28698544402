// A browser starts no worker for pages that are opened from a disk, and the search of the site runs in one.
// There the script runs in a hidden frame instead, with the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inner = frame.contentWindow;
      inner.postMessage = (data) => {
        const message = new MessageEvent("message", { data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      this.send = (data) => inner.dispatchEvent(new MessageEvent("message", { data }));
      const script = inner.document.createElement("script");
      script.src = new URL(address, location.href).href;
      script.onload = () => {
        const early = this.waiting;
        this.waiting = null;
        early.forEach(this.send);
      };
      inner.document.body.appendChild(script);
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.send(data);
    }
  };
}
