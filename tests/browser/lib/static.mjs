// Serves a built page, and passes what is no file of it on to the server, as a proxy in front of both does.
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { extname, join, normalize } from 'node:path';

const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.json': 'application/json', '.ico': 'image/x-icon' };

/** `base`: where the files are; `views`: which other paths are answered with the page. */
export async function serveFolder(folder, target, { base = '/', views = /^\/$/ } = {}) {
  const server = createServer(async (req, res) => {
    const path = normalize(decodeURIComponent(new URL(req.url, 'http://x').pathname));
    const name = views.test(path) ? 'index.html' : path.startsWith(base) ? path.slice(base.length) : '';
    const file = join(folder, name);
    const found = req.method === 'GET' && file.startsWith(folder) && (await stat(file).catch(() => null))?.isFile();
    if (found) {
      res.writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream' });
      return createReadStream(file).pipe(res);
    }
    const to = new URL(req.url, target);
    const headers = { ...req.headers, host: to.host };
    if (headers.origin) headers.origin = to.origin;
    const passed = request(to, { method: req.method, headers }, (answer) => {
      res.writeHead(answer.statusCode, answer.headers);
      answer.pipe(res);
      answer.on('error', () => res.destroy());
    });
    passed.on('error', () => (res.headersSent ? res.destroy() : res.writeHead(502).end()));
    res.on('close', () => passed.destroy());
    req.pipe(passed);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    stop: () => new Promise((resolve) => (server.close(resolve), server.closeAllConnections())),
  };
}
