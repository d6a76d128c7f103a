// node: workers that fill, pack and unpack buffers; each tells a digest.
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads');
const crypto = require('crypto');
const zlib = require('zlib');

if (isMainThread) {
    const digests = [];
    let running = 0;
    for (let n = 0; n < 16; n++) {
        running++;
        const worker = new Worker(__filename, { workerData: n });
        worker.on('message', (text) => (digests[n] = text));
        worker.on('exit', () => --running || console.log(digests.join('\n')));
    }
} else {
    const hash = crypto.createHash('sha256');
    const kept = [];
    for (let n = 0; n < 400; n++) {
        const bytes = Buffer.alloc((n * 7919 + workerData * 31) % 60000, n % 251);
        kept[n % 37] = zlib.inflateSync(zlib.deflateSync(bytes));
        hash.update(kept[(n * 5) % 37] || '').update(JSON.stringify({ n, text: 'x'.repeat(n) }));
    }
    parentPort.postMessage(hash.digest('hex'));
}
