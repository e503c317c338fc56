// Runs the test binary of verify/legacy, which plays schedules. The page asks, and gets JSON.

importScripts("wasm_exec.js");

const go = new Go();
go.argv = ["legacy.test", "-test.run=^TestServe$", "-test.timeout=0"];
onmessage = (e) => ask(JSON.stringify(e.data)); // the program sets ask before it sends its first message

// The file is compressed, because few file servers compress WebAssembly. Some unpack it.
async function load() {
  const packed = new Uint8Array(await (await fetch("play.wasm.gz")).arrayBuffer());
  if (packed[0] !== 0x1f) return packed;
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

load()
  .then((program) => WebAssembly.instantiate(program, go.importObject))
  .then(({instance}) => go.run(instance))
  .then(() => { throw new Error("the program has ended"); })
  .catch((e) => postMessage(JSON.stringify({id: 0, error: `The simulator does not run: ${e.message}`})));
