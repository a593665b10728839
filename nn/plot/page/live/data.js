// What C++ has put into the page. In a page without a model there is no `config`.
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const config = data.config, vocab = config?.vocab_size;
const packedSnapshots = () => [...document.querySelectorAll("script.block")].map((block) => block.textContent);
