// Decodes with llama.cpp once per line of standard input: the line is the number of tokens after the first one.
// Answers with one line of JSON; the clock starts when the first token is there, so the prompt is not counted.
import path from "node:path";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const settings = JSON.parse(process.argv[2]);
const entry = path.join(settings.package, "dist", "index.js");
const { getLlama } = await import(pathToFileURL(entry).href);

const llama = await getLlama({
  gpu: false,
  build: "never",
  skipDownload: true,
  progressLogs: false,
  logLevel: "error",
  maxThreads: settings.threads,
});
const model = await llama.loadModel({ modelPath: settings.gguf });
const context = await model.createContext({ contextSize: 512, threads: settings.threads });
const sequence = context.getSequence();
console.log(JSON.stringify({ threads: context.currentThreads }));

for await (const line of readline.createInterface({ input: process.stdin })) {
  const wanted = Number(line);
  await sequence.clearHistory();
  let count = -1;
  let started = 0;
  let ids = [];
  for await (const token of sequence.evaluate(settings.ids, { temperature: 0, yieldEogToken: true })) {
    if (count === -1) started = performance.now();
    ids.push(token);
    if (++count === wanted) break;
  }
  console.log(JSON.stringify({ tokens: count, seconds: (performance.now() - started) / 1000, ids }));
}
process.exit(0);
