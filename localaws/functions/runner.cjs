// The node side of a Lambda execution environment: a line of JSON in, a line of JSON out, again and again.
// Answers go to the file descriptor that LOCALAWS_ANSWERS names.
const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const path = require('node:path');
const readline = require('node:readline');

// Functions PUT their custom resource responses with https.request({hostname, path}), without the port of
// the ResponseURL. Such requests to the local AWS go to its plain HTTP port.
const server = new URL(process.env.AWS_ENDPOINT_URL);
const secureRequest = https.request;
https.request = function request(options, ...rest) {
  if (options && options.hostname === server.hostname) {
    return http.request({ ...options, protocol: 'http:', port: server.port, agent: undefined }, ...rest);
  }
  return secureRequest.call(this, options, ...rest);
};

function load() {
  const handler = process.env._HANDLER;
  const dot = handler.lastIndexOf('.');
  return require(path.join(process.env.LAMBDA_TASK_ROOT, handler.slice(0, dot)))[handler.slice(dot + 1)];
}

function context(request) {
  const deadline = Date.now() + request.timeout_s * 1000;
  return {
    awsRequestId: request.request_id,
    callbackWaitsForEmptyEventLoop: true,
    functionName: process.env.AWS_LAMBDA_FUNCTION_NAME,
    functionVersion: process.env.AWS_LAMBDA_FUNCTION_VERSION,
    getRemainingTimeInMillis: () => Math.max(0, deadline - Date.now()),
    invokedFunctionArn: request.function_arn,
    logGroupName: process.env.AWS_LAMBDA_LOG_GROUP_NAME,
    logStreamName: process.env.AWS_LAMBDA_LOG_STREAM_NAME,
    memoryLimitInMB: process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
  };
}

function call(handler, event, ctx) {
  if (handler.length < 3) return Promise.resolve(handler(event, ctx));
  return new Promise((resolve, reject) => {
    handler(event, ctx, (error, result) => (error ? reject(error) : resolve(result)));
  });
}

function failed(error) {
  const thrown = error instanceof Error ? error : new Error(String(error));
  console.error(thrown.stack);
  return { errorType: thrown.name, errorMessage: thrown.message, trace: (thrown.stack || '').split('\n') };
}

async function main() {
  const answers = Number(process.env.LOCALAWS_ANSWERS);
  let handler;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let answer;
    try {
      handler = handler || load();
      const payload = await call(handler, request.event, context(request));
      answer = { ok: true, payload: payload === undefined ? null : payload };
    } catch (error) {
      answer = { ok: false, payload: failed(error) };
    }
    fs.writeSync(answers, `${JSON.stringify(answer)}\n`);
  }
}

main();
