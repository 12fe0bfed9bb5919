// The whole protocol by types that openapi-typescript has made: `node generated_client.js ADDRESS APP_KEY STAFF_KEY`.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

type Decision = components["schemas"]["Decision"];
const [address, appKey, staffKey] = process.argv.slice(2) as [string, string, string];
const caller = (token: string) => createClient<paths>({ baseUrl: address, headers: { Authorization: `Bearer ${token}` } });
const key = () => ({ "Idempotency-Key": crypto.randomUUID() });

function must<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) throw new Error(`${what} is missing`);
  return value;
}

function same<T>(found: T, expected: T): void {
  if (found !== expected) throw new Error(`found ${String(found)}; expected ${String(expected)}`);
}

const app = caller(appKey);
const staff = caller(staffKey);
const participant = "T001";
const path = { participant };
const person = await staff.POST("/api/v1/participants", { body: { participant, timezone: "Asia/Tokyo" }, params: { header: key() } });
same(person.data?.timezone, "Asia/Tokyo");

const issued = await app.POST("/api/v1/participants/{participant}/tokens", { params: { path } });
const renewed = await app.POST("/api/v1/tokens", { body: { refresh: must(issued.data, "token").refresh } });
same(renewed.data?.participant, participant);
const phone = caller(must(renewed.data, "access").token);

const found = await phone.GET("/api/v1/study/content");
const content = must(found.data, "content");
const tag = must(found.response.headers.get("etag"), "etag");
const again = await phone.GET("/api/v1/study/content", { params: { header: { "If-None-Match": tag } } });
same(again.response.status, 304);
const sensed: Record<string, number | string | null> = {};
for (const variable of content.variables) {
  if (!variable.knows && variable.visibility !== "reported") sensed[variable.variable] = must(variable.levels[0], "level").value;
}
const question = must(content.questions[0], "question");
const reported = { [question.variable]: must(question.answers[0], "answer").value };

const made: Decision = must((await phone.POST("/api/v1/participants/{participant}/decisions", { params: { path, header: key() }, body: { sensed } })).data, "decision");
same(made.status, "nudge");
if (Date.parse(must(made.expires, "expires")) < Date.now()) throw new Error("has expired");
const waiting = await staff.GET("/api/v1/calls");
same(waiting.data?.items.some((each) => each.decision === made.decision), true);
const decision = { decision: made.decision };
const settled = await staff.POST("/api/v1/decisions/{decision}/answer", { params: { path: decision, header: key() }, body: { answered: true, reported } });
same(settled.data?.revealed, true);

const events = await phone.GET("/api/v1/participants/{participant}/events", { params: { path, query: { wait: 5 } } });
const advice = must(must(events.data, "events").items.at(-1), "event");
same(advice.kind, "advice");
const reward = await phone.POST("/api/v1/decisions/{decision}/reward", { params: { path: decision, header: key() }, body: { reward: 0.5 } });
same(reward.data?.learned, true);
const opened = await phone.POST("/api/v1/participants/{participant}/openings", { params: { path, header: key() }, body: { reported } });
same(opened.data?.counts, "next");
const bundle = must((await phone.GET("/api/v1/participants/{participant}/bundle", { params: { path } })).data, "bundle");
same(bundle.now?.action, advice.decision?.action);
same((await phone.GET("/api/v1/decisions/{decision}", { params: { path: decision } })).data?.reward, 0.5);
same((await phone.GET("/api/v1/study")).data?.role, "participant");
same((await staff.GET("/api/v1/events")).data?.items[0]?.event.kind, "launched");
const refused = await phone.GET("/api/v1/participants/{participant}", { params: { path: { participant: "T002" } } });
same(refused.error?.code, "not_found");
console.log("done");
