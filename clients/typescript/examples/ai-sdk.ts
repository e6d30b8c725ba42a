// A chat with the AI SDK that remembers: memories are recalled before a message and extracted after the reply.
//
//   nacre serve --port 8750                                  # prints a key at its first start
//   NACRE_URL=http://127.0.0.1:8750 NACRE_KEY=nacre_… node dist/examples/ai-sdk.js
import { randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";

import { generateText, type LanguageModel, type ModelMessage } from "ai";
import { MockLanguageModelV3 } from "ai/test";

import { NacreClient } from "../src/index.js";

/** One conversation. Messages are only appended, so that the provider's prompt cache can be used. */
export class Chat {
  readonly #messages: ModelMessage[] = [];
  readonly #session = randomUUID();

  constructor(
    readonly model: LanguageModel,
    readonly client: NacreClient,
  ) {}

  async send(text: string): Promise<string> {
    const { picks } = await this.client.recall({ query: text });
    const memories = picks.map((pick) => ({ type: "text" as const, text: pick.text }));
    this.#messages.push({ role: "user", content: [{ type: "text", text }, ...memories] });
    const { text: reply, response } = await generateText({ model: this.model, messages: this.#messages });
    this.#messages.push(...response.messages);
    // Only what was said: recalled memories must not be extracted again.
    const said = [
      { role: "user", content: text },
      { role: "assistant", content: reply },
    ];
    await this.client.startJob({ kind: "extract", session: this.#session, messages: said });
    return reply;
  }
}

/** Answers without a network; in your program write `anthropic("claude-sonnet-5-5")` or another model. */
export function mockModel(reply: string): MockLanguageModelV3 {
  return new MockLanguageModelV3({
    doGenerate: async () => ({
      content: [{ type: "text", text: reply }],
      finishReason: { unified: "stop", raw: "stop" },
      usage: {
        inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
        outputTokens: { total: 5, text: 5, reasoning: 0 },
      },
      warnings: [],
    }),
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const client = new NacreClient({ url: process.env.NACRE_URL ?? "http://127.0.0.1:8750", key: process.env.NACRE_KEY ?? "" });
  const model = mockModel("Noted.");
  await new Chat(model, client).send("Remember that our build server is heron.");
  await new Promise((resume) => setTimeout(resume, 1_000));
  await new Chat(model, client).send("Which server do we build on?");
  console.log(JSON.stringify(model.doGenerateCalls.at(-1)?.prompt.at(-1), null, 2));
}
