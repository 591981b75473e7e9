// @ts-check
// The meters: bytes compared with the minimum, and VMEM with its limit.

class Meters {
  /** @param {View.KernelView} kernel @param {Card[]} cards @param {boolean} steps */
  constructor(kernel, cards, steps) {
    this.kernel = kernel;
    this.cards = cards.filter((card) => card.operand.counted && card.runs);
    this.total = kernel.read + kernel.written;
    byId("hbm-steps").hidden = byId("curve").hidden = !this.cards.length || !steps;
    this.fixed();
    this.vmem();
  }

  /** @param {number} step */
  at(step) {
    let moved = 0, least = 0;
    for (const { runs } of this.cards) {
      const done = runs.done(step);
      moved += runs.moved[done];
      least += runs.least[done];
    }
    return [moved, least];
  }

  fixed() {
    const { kernel, total } = this;
    const words = byId("hbm-whole");
    words.replaceChildren();
    const whole = put("b"), least = put("b");
    whole.id = "hbm-total";
    least.id = "hbm-least";
    writeBytes(whole, total);
    writeBytes(least, kernel.least);
    const times = kernel.least ? ` (${(total / kernel.least).toFixed(2)}×)` : "";
    words.append("In total ", whole, `: ${bytesOf(kernel.read)} read, ${bytesOf(kernel.written)} written. Each block moved once: `, least, `${times}.`);
    const untold = kernel.operands.filter((operand) => !operand.counted).map((operand) => operand.label);
    if (untold.length) words.append(` Without ${untold.join(", ")}.`);
  }

  vmem() {
    const { memory } = this.kernel;
    const share = memory.used / memory.limit;
    const gauge = byId("vmem-gauge");
    byId("vmem-bar").style.width = `${Math.min(Math.max(share * 100, 0.6), 100)}%`;
    gauge.classList.toggle("over", share > 1);
    const used = put("b");
    used.id = "vmem-used";
    writeBytes(used, memory.used);
    const percent = share < 0.001 ? "under 0.1" : (share * 100).toFixed(share < 0.1 ? 1 : 0);
    byId("vmem-words").replaceChildren(used, ` of ${bytesOf(memory.limit)}, ${percent} %`);
    gauge.setAttribute("aria-label", byId("vmem-words").textContent);
    byId("vmem-words").append(put("span", "soft small", memory.reported ? " from the compiler's report" : " from the blocks' shapes"));
    const largest = Math.max(1, ...memory.held.map((one) => one.size));
    byId("vmem-held").replaceChildren(...memory.held.map((one) => {
      const row = put("li");
      const bar = put("i");
      bar.style.width = `${one.size / largest * 100}%`;
      const copies = one.buffers > 1 ? `${one.buffers} × ` : "";
      row.append(put("span", "code", one.name), put("span", "soft small code", `${copies}${one.shape}`), put("span", "size", bytesOf(one.size)), bar);
      return row;
    }));
  }

  /** @param {Look} look */
  lay(look) {
    this.look = look;
    const canvas = byId("curve");
    this.width = inner(canvas.parentElement);
    this.context = sized(canvas, this.width, 96);
    this.under = document.createElement("canvas");
    this.drawn(sized(this.under, this.width, 96));
  }

  /** @param {Context} c */
  drawn(c) {
    const { look, width, kernel } = this;
    const steps = kernel.shown, count = Math.max(1, Math.min(steps, Math.floor(width)));
    /** @param {number} step */
    const x = (step) => (steps < 2 ? width : step / (steps - 1) * width);
    /** @param {number} size */
    const y = (size) => 92 - (this.total ? size / this.total : 0) * 86;
    const points = Array.from({ length: count }, (_, n) => {
      const step = count < 2 ? 0 : Math.round(n / (count - 1) * (steps - 1));
      return [x(step), ...this.at(step)];
    });
    /** @param {number} which @param {string} fill @param {string} line @param {number[]} dash */
    const area = (which, fill, line, dash) => {
      c.beginPath();
      c.moveTo(0, y(0));
      points.forEach((point) => c.lineTo(point[0], y(point[which])));
      c.lineTo(width, y(0));
      c.fillStyle = fill;
      c.fill();
      c.beginPath();
      points.forEach((point, n) => (n ? c.lineTo(point[0], y(point[which])) : c.moveTo(point[0], y(point[which]))));
      c.strokeStyle = line;
      c.lineWidth = 1.5;
      c.setLineDash(dash);
      c.stroke();
      c.setLineDash([]);
    };
    area(1, look.gold, look["gold-line"], []);
    area(2, look.blue, look["blue-line"], [4, 3]);
    this.x = x;
    this.y = y;
  }

  /** @param {number} step */
  show(step) {
    const [moved, least] = this.at(step);
    writeBytes(byId("hbm-now"), moved);
    writeBytes(byId("hbm-least-now"), least);
    const { context: c, width, look } = this;
    c.clearRect(0, 0, width, 96);
    c.drawImage(this.under, 0, 0, width, 96);
    c.fillStyle = look.ink;
    c.fillRect(Math.min(this.x(step), width - 1.5), 2, 1.5, 90);
    c.beginPath();
    c.arc(Math.min(Math.max(this.x(step), 3), width - 3), this.y(moved), 3, 0, 7);
    c.fill();
  }
}
