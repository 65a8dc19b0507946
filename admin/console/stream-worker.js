// One for all tabs of a browser: it has the connections to the server's streams, and forwards messages.
//
// A browser opens six connections to a server, over all its tabs: with a stream or two each, the third tab would wait for
// ever. From a tab: {join: id, path, ...}, {leave: id}, {alive: lock}, {bye: true}. To it: {id, ...message of sse.js}, and
// for a later tab {id, before: [...]}: the messages since the stream was opened.

import { follow } from "./sse.js";

const KEPT = 1000;
const streams = new Map(); // path and token -> the stream

class Stream {
  constructor(key, { path, token, silence_ms, replays }) {
    this.key = key;
    this.listeners = new Map(); // port -> the ids it has joined with
    this.kept = [];
    this.state = null;
    this.ends = new AbortController();
    follow(path, { token, silence_ms, replays, signal: this.ends.signal, told: (message) => this.told(message, replays) });
  }

  told(message, replays) {
    if (message.state) {
      this.state = message;
      if (message.again && replays) this.kept = [];
    } else this.kept = [...this.kept.slice(1 - KEPT), message];
    for (const [port, ids] of this.listeners) for (const id of ids) port.postMessage({ id, ...message });
    if (message.state === "off") streams.delete(this.key); // a later tab may succeed
  }

  join(port, id) {
    this.listeners.set(port, [...(this.listeners.get(port) ?? []), id]);
    if (this.kept.length) port.postMessage({ id, before: this.kept });
    if (this.state) port.postMessage({ id, ...this.state, again: false });
  }

  leave(port, id = null) {
    const left = id === null ? [] : (this.listeners.get(port) ?? []).filter((each) => each !== id);
    if (left.length) this.listeners.set(port, left);
    else this.listeners.delete(port);
    if (this.listeners.size) return;
    this.ends.abort();
    if (streams.get(this.key) === this) streams.delete(this.key);
  }
}

function gone(port) {
  for (const stream of [...streams.values()]) stream.leave(port);
}

onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.join !== undefined) {
      const key = JSON.stringify([data.path, data.token]);
      if (!streams.has(key)) streams.set(key, new Stream(key, data));
      streams.get(key).join(port, data.join);
    } else if (data.leave !== undefined) {
      for (const stream of [...streams.values()]) if (stream.listeners.get(port)?.includes(data.leave)) stream.leave(port, data.leave);
    } else if (data.alive !== undefined) {
      // A tab that ends sends no message, but its lock is released.
      navigator.locks.request(data.alive, () => gone(port));
    } else if (data.bye) gone(port);
  };
};
