// The worker that computes, and its questions (workbench_worker/worker.js).
class Worked {
  constructor() {
    this.worker = new Worker(URL.createObjectURL(new Blob([byId("worker").textContent], { type: "text/javascript" })));
    this.waiting = new Map();
    this.questions = 0;
    this.worker.onmessage = ({ data: { id, result, error } }) => {
      const { resolve, reject } = this.waiting.get(id);
      this.waiting.delete(id);
      if (error) reject(new Error(error));
      else resolve(result);
    };
  }

  ask(task, given) {
    return new Promise((resolve, reject) => {
      this.waiting.set(++this.questions, { resolve, reject });
      this.worker.postMessage({ id: this.questions, task, given });
    });
  }

  start() { return this.ask("start", { config, packed: packedSnapshots() }); }
}
