// A server written with the official TypeScript library: the same parts as own_server.py, over pipes.
import { writeFileSync } from 'node:fs';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { CreateMessageResultSchema, ElicitResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

const server = new McpServer({ name: 'own-node', version: '1' }, { capabilities: { logging: {} } });
const text = (words) => ({ content: [{ type: 'text', text: words }] });

server.registerTool('book', { description: 'Books a table, after a question.' }, async (extra) => {
    const requestedSchema = {
        type: 'object',
        properties: {
            day: { type: 'string', enum: ['monday', 'friday'] },
            guests: { type: 'integer', default: 2 },
        },
        required: ['day'],
    };
    const request = { method: 'elicitation/create', params: { message: 'When?', requestedSchema } };
    const answer = await extra.sendRequest(request, ElicitResultSchema);
    return text(JSON.stringify(answer));
});

server.registerTool('sample', { description: 'Asks the model something.' }, async (extra) => {
    const messages = [{ role: 'user', content: { type: 'text', text: 'What is a gimlet?' } }];
    const request = { method: 'sampling/createMessage', params: { messages, maxTokens: 100 } };
    const answer = await extra.sendRequest(request, CreateMessageResultSchema);
    return text(`${answer.model}: ${answer.content.text}`);
});

server.registerTool(
    'count',
    { description: 'Counts, with progress.', inputSchema: { steps: z.number() } },
    async ({ steps }, extra) => {
        for (let step = 1; step <= steps; step++) {
            const params = { progressToken: extra._meta.progressToken, progress: step, total: steps };
            await extra.sendNotification({ method: 'notifications/progress', params });
            await new Promise((resolve) => setTimeout(resolve, 50));
        }
        return text(`counted to ${steps}`);
    },
);

server.registerTool('grow', { inputSchema: { name: z.string() } }, async ({ name }) => {
    server.registerTool(name, { description: 'Came later.' }, async () => text(`this is ${name}`));
    return text('added');
});

server.registerTool('big', { inputSchema: { words: z.number() } }, async ({ words }) => text('word '.repeat(words)));

server.registerTool('slow', { inputSchema: { note: z.string() } }, async ({ note }, extra) => {
    await new Promise((resolve) => extra.signal.addEventListener('abort', resolve));
    writeFileSync(note, 'withdrawn');
    return text('never');
});

server.registerTool('die', {}, async () => {
    process.stderr.write('own-node: no more memory\n', () => process.exit(7));
    await new Promise(() => {});
});

server.registerTool(
    'typed',
    { outputSchema: { sum: z.number(), of: z.array(z.number()) } },
    async () => ({ ...text('the sum is 3'), structuredContent: { sum: 3, of: [1, 2] } }),
);

server.registerResource('readme', 'own://readme', {}, async (uri) => ({
    contents: [{ uri: uri.href, text: 'read me first' }],
}));

server.registerPrompt(
    'review',
    { argsSchema: { file: z.string(), tone: z.string().optional() } },
    ({ file, tone }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Review ${file} in a ${tone ?? 'kind'} tone.` } }],
    }),
);

await server.connect(new StdioServerTransport());
