// The worker that computes, and its questions (model_worker/worker.js).
const worker = new Worker(URL.createObjectURL(new Blob([document.getElementById("worker").textContent], { type: "text/javascript" })));
const waiting = new Map();
let questions = 0;

function ask(task, given) {
  return new Promise((resolve, reject) => {
    waiting.set(++questions, { resolve, reject });
    worker.postMessage({ id: questions, task, given });
  });
}

worker.onmessage = ({ data: { id, result, error } }) => {
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  if (error) reject(new Error(error));
  else resolve(result);
};

function startWorker() {
  return ask("start", { config, packed: packedSnapshots() });
}
