// A process that sends recorded runs through the ordinary JavaScript SDK and one of its three exporters. Twin of ../python_sender.py, which
// says what options it takes, what it prints, and when it ends.

import { readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { DiagLogLevel, ROOT_CONTEXT, diag, trace } from '@opentelemetry/api';
import { OTLPTraceExporter as GrpcExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';

const PATIENCE_MS = 120_000;

const options = JSON.parse(process.argv[2]);
const recorded = JSON.parse(readFileSync(options.runs, 'utf8'));

const say = (message) => process.stderr.write(`${message}\n`);
diag.setLogger({ error: say, warn: say, info: say, debug: () => {}, verbose: say }, DiagLogLevel.ALL);

function exporter() {
  const common = { timeoutMillis: PATIENCE_MS, compression: options.gzip ? 'gzip' : 'none' };
  if (options.protocol === 'grpc') return new GrpcExporter({ ...common, url: options.endpoint });
  const Exporter = options.protocol === 'http/json' ? JsonExporter : ProtobufExporter;
  return new Exporter({ ...common, url: `${options.endpoint}/v1/traces` });
}

// Notes which traces the exporter gave up.
class Watched {
  givenUp = new Set();

  constructor(inner) {
    this.inner = inner;
  }

  export(spans, done) {
    this.inner.export(spans, (result) => {
      if (result.code !== 0) {
        for (const span of spans) this.givenUp.add(span.spanContext().traceId);
        say('given up');
      }
      done(result);
    });
  }

  forceFlush() {
    return this.inner.forceFlush?.() ?? Promise.resolve();
  }

  shutdown() {
    return this.inner.shutdown();
  }
}

async function replay([root, ...children], tracer) {
  const parent = tracer.startSpan(root.name, { attributes: root.attributes }, ROOT_CONTEXT);
  const inside = trace.setSpan(ROOT_CONTEXT, parent);
  for (const child of children) {
    const span = tracer.startSpan(child.name, { attributes: child.attributes }, inside);
    const begun = Date.now();
    // A tool takes its time. This SDK cuts the times at which spans start to whole milliseconds, so calls of less would be in no order.
    do await setTimeout(1); while (Date.now() === begun);
    span.end();
  }
  parent.end();
  return parent.spanContext();
}

let stopped = false;
process.stdin.on('end', () => { stopped = true; }).resume();

const watched = new Watched(exporter());
const batches = new BatchSpanProcessor(watched, {
  scheduledDelayMillis: 3_600_000, exportTimeoutMillis: PATIENCE_MS, maxExportBatchSize: options.batch,
});
const provider = new BasicTracerProvider({
  resource: resourceFromAttributes({ 'service.name': recorded.service }), spanProcessors: [batches],
});
const tracer = provider.getTracer(recorded.scope);
const sent = {};
// What was given up is noted above; a flush that fails says the same a second time.
const flush = () => provider.forceFlush().catch(() => {});
while (Object.keys(sent).length < options.most && !stopped) {
  const number = Object.keys(sent).length % recorded.runs.length;
  const { traceId, spanId } = await replay(recorded.runs[number], tracer);
  sent[traceId] = [number, recorded.runs[number].length, spanId];
  if (Object.keys(sent).length % options.flush_every === 0) {
    await flush();
    await new Promise(setImmediate); // lets the end of standard input be seen
  }
}
await flush();
await provider.shutdown();
process.stdout.write(`${JSON.stringify({ sent, given_up: [...watched.givenUp].sort() })}\n`, () => process.exit(0));
