// Written by `make docs` from the OpenAPI document of `nacre serve`; do not edit.
import { type Answer, type CallOptions, Http, type WriteOptions } from "./http.js";

/** What `nacre agents list --json` prints. */
export interface AgentsAndTeams {
  agents: Record<string, unknown>[];
  teams: Record<string, unknown>[];
}

export interface AuditPage {
  entries: Record<string, unknown>[];
  next: string | null;
}

export interface CommitDiff {
  commit: string;
  files: FileChange[];
}

export interface CommitEntry {
  commit: string;
  author: string;
  reason: string;
  session: string;
  at: string;
  files: string[];
  confirmed: boolean | null;
}

export interface CommitPage {
  commits: CommitEntry[];
}

/** A new text, or a sentence that names the old value and the new one: `it is Friday, not Tuesday`. */
export interface CorrectText {
  /** What to keep, in full sentences. */
  text: string;
  /** Left out: that of the memory. */
  origin?: "user" | "agent" | "unverified" | "untrusted" | null;
  /** Why, for the history. */
  reason?: string;
}

export interface FileChange {
  file: string;
  /** Id of the content; null if there was no file. */
  before: string | null;
  after: string | null;
  diff: string;
}

export interface FindMemory {
  /** A file, a name, or words that match only one memory. */
  wanted: string;
}

export interface Forgotten {
  file: string;
  commit: string;
  entry: MemoryWhole;
}

export interface Found {
  file: string;
  name: string;
  description: string;
  type: "user" | "feedback" | "project" | "reference" | null;
  origin: string;
  modified: string | null;
  bytes: number;
  indexed: boolean;
  pinned: boolean | null;
  body: string;
  sources: string[];
  score: number;
}

export interface JobEntry {
  id: string;
  kind: string;
  space: string;
  user: string;
  status: "queued" | "running" | "completed" | "failed";
  attempts: number;
  created: string;
  finished: string | null;
  error: string | null;
  result: Record<string, unknown> | null;
}

export interface JobList {
  jobs: JobEntry[];
}

export interface JobRequest {
  kind: "dream" | "index" | "extract";
  /** To extract: the conversation's id; a job that waits for it gets the new messages. */
  session?: string;
  /** To extract: the conversation, as sent to the API of Anthropic or OpenAI. */
  messages?: Record<string, unknown>[];
}

export interface MailSent {
  to: string[];
  ids: string[];
  /** The receiver is not running; the letter waits in its inbox. */
  waits: boolean;
}

export interface MailText {
  /** An agent's name, the beginning of its id or of a session's, or * for a whole team. */
  to: string;
  text: string;
  team?: string;
  summary?: string;
}

export interface MemoryHead {
  file: string;
  name: string;
  description: string;
  type: "user" | "feedback" | "project" | "reference" | null;
  origin: string;
  modified: string | null;
  bytes: number;
  indexed: boolean;
  pinned: boolean | null;
}

/** What `nacre memory why --json` prints. */
export interface MemoryOrigin {
  file: string;
  name: string;
  exists: boolean;
  origin: string;
  sources: string[];
  unconfirmed: string[];
  history: CommitEntry[];
  words: Record<string, unknown>[];
}

/** With `bodies=true` each entry has its `body`, too. */
export interface MemoryPage {
  memories: MemoryHead[];
  next: string | null;
}

/** New values of a memory; what is left out stays. */
export interface MemoryPatch {
  text?: string | null;
  name?: string | null;
  description?: string | null;
  type?: "user" | "feedback" | "project" | "reference" | null;
  pinned?: boolean | null;
  /** Of a new text; user if left out. */
  origin?: "user" | "agent" | "unverified" | "untrusted" | null;
  /** Why, for the history. */
  reason?: string;
}

/** A memory to save. */
export interface MemoryText {
  /** What to keep, in full sentences. */
  text: string;
  /** A short title; derived from the text if left out. */
  name?: string;
  /** One line that says when this is worth knowing. */
  description?: string;
  /** Derived from the text if left out. */
  type?: "user" | "feedback" | "project" | "reference" | null;
  /** Who said it; unverified and untrusted memories are found on request only. */
  origin?: "user" | "agent" | "unverified" | "untrusted";
  /** The file to write; by subject if left out. */
  file?: string;
  pinned?: boolean | null;
  /** Shown only to keys that were made with `--local`. */
  local_only?: boolean | null;
  /** Why, for the history. */
  reason?: string;
}

export interface MemoryWhole {
  file: string;
  name: string;
  description: string;
  type: "user" | "feedback" | "project" | "reference" | null;
  origin: string;
  modified: string | null;
  bytes: number;
  indexed: boolean;
  pinned: boolean | null;
  body: string;
  sources: string[];
}

/** An error (RFC 9457). */
export interface ProblemDocument {
  type: string;
  title: string;
  status: number;
  detail: string;
}

/** A memory that was chosen, with its score and the state of what it names. */
export interface RecallPick {
  file: string;
  name: string;
  /** The memory as it is attached to a message. */
  text: string;
}

/** What `nacre recall --json` prints. */
export interface RecallResult {
  query: string;
  picks: RecallPick[];
  left_out: Record<string, unknown>[];
  ranked: Record<string, unknown>[];
  took_ms: number;
  skipped: string | null;
  problem: string | null;
}

export interface RecallText {
  /** A message. */
  query: string;
  /** At most so many memories. */
  limit?: number;
}

/** The blocks of one request, each with its mark and whether the request before had it. */
export interface RequestBlocks {
  session: string;
  request: number;
  requests: number;
  total: number;
  blocks: Record<string, unknown>[];
  marked: Record<string, unknown>[];
  reply: Record<string, unknown>[];
  /** The first block that the cache could not serve. */
  changed_at: number | null;
  reason: string;
}

/** The requests of a session: when, tokens, price, cache share, what layers did before each. */
export interface RequestList {
  session: string;
  title: string | null;
  requests: Record<string, unknown>[];
}

export interface ReviewDecision {
  id: string;
  /** False drops the proposal. */
  accept?: boolean;
}

export interface ReviewPage {
  proposals: Record<string, unknown>[];
}

export interface Reviewed {
  id: string;
  file: string;
  commit: string;
}

export interface Saved {
  file: string;
  commit: string;
  feedback: string;
  entry: MemoryWhole;
  /** The memory that was updated. */
  before: MemoryWhole | null;
}

export interface SearchHits {
  hits: Record<string, unknown>[];
}

export interface SearchQuery {
  /** A question or a message. */
  query: string;
  limit?: number;
}

export interface SearchResult {
  memories: Found[];
}

export interface SessionHead {
  session: string;
  cwd: string | null;
  started: string | null;
  modified: string;
  messages: number;
  tokens: number;
  compactions: number;
  title: string | null;
  bytes: number;
}

export interface SessionPage {
  sessions: SessionHead[];
  next: string | null;
}

export interface SessionQuery {
  /** A question or a message. */
  query: string;
  limit?: number;
}

/** What the model saw at one request, and what it answered. */
export interface SessionRequest {
  session: string;
  request: number;
  requests: number;
  at: string | null;
  tokens: number;
  messages: Record<string, unknown>[];
  reply: Record<string, unknown>;
  usage: Record<string, unknown> | null;
}

export interface SessionWhole {
  session: string;
  tokens: number;
  requests: number;
  messages: Record<string, unknown>[];
}

export interface SpaceNames {
  spaces: string[];
}

/** The head after a write. */
export interface SyncHead {
  head: string;
}

/** Files to read as they were at a head. */
export interface SyncRead {
  head: string;
  files: string[];
}

/** The files of a space, and every version that each had. */
export interface SyncState {
  head: string;
  files: Record<string, string>;
  known: Record<string, string[]>;
}

/** Texts by file; without those that have changed since. */
export interface SyncTexts {
  contents: Record<string, string>;
}

/** New texts by file, null for a forgotten one, if the space is still at a head. */
export interface SyncWrite {
  head: string;
  changes: Record<string, string | null>;
  /** Why, for the history. */
  reason?: string;
}

export interface UndoCommit {
  /** A commit of the history or the beginning of its id; the newest in force if empty. */
  commit?: string;
  /** Why, for the history. */
  reason?: string;
}

export interface Undone {
  undone: string;
  commit: string;
}

/** What `nacre stats --json` prints. */
export interface Usage {
  days: number;
  since: string;
  sessions: number;
  requests: number;
  cost_usd: number | null;
  memories: Record<string, unknown>;
  by_day: Record<string, unknown>[];
}

/** Every operation of the server; each throws `NacreError` when the server refuses. */
export class NacreClient extends Http {
  /** List memories, newest first. */
  listMemories(options: { limit?: number; cursor?: string; bodies?: boolean } & CallOptions = {}): Promise<Answer<MemoryPage>> {
    return this.call("GET", `/v1/memories`, options, { query: { limit: options.limit, cursor: options.cursor, bodies: options.bodies } });
  }

  /** Save a memory; one on the same subject is updated. */
  saveMemory(body: MemoryText, options: WriteOptions = {}): Promise<Answer<Saved>> {
    return this.call("POST", `/v1/memories`, options, { body, writes: true });
  }

  /** Read one memory; its ETag can be sent as If-Match with a change. */
  getMemory(file: string, options: CallOptions = {}): Promise<Answer<MemoryWhole>> {
    return this.call("GET", `/v1/memories/${encodeURIComponent(file)}`, options);
  }

  /** Change a memory; the history keeps the old text. */
  changeMemory(file: string, body: MemoryPatch, options: WriteOptions = {}): Promise<Answer<Saved>> {
    return this.call("PATCH", `/v1/memories/${encodeURIComponent(file)}`, options, { body, writes: true });
  }

  /** Forget a memory; the history keeps it. */
  forgetMemory(file: string, options: { reason?: string } & WriteOptions = {}): Promise<Answer<Forgotten>> {
    return this.call("DELETE", `/v1/memories/${encodeURIComponent(file)}`, options, { query: { reason: options.reason }, writes: true });
  }

  /** Correct a memory by a new text, or by a sentence with the old and the new value. */
  correctMemory(file: string, body: CorrectText, options: WriteOptions = {}): Promise<Answer<Saved>> {
    return this.call("POST", `/v1/memories/${encodeURIComponent(file)}/correct`, options, { body, writes: true });
  }

  /** Read one memory by its file, its name, or words that match only that memory. */
  findMemory(body: FindMemory, options: CallOptions = {}): Promise<Answer<MemoryWhole>> {
    return this.call("POST", `/v1/memories/find`, options, { body });
  }

  /** Find memories by words, unconfirmed ones included. */
  searchMemories(body: SearchQuery, options: CallOptions = {}): Promise<Answer<SearchResult>> {
    return this.call("POST", `/v1/memories/search`, options, { body });
  }

  /** Choose the few memories that help with a message, as a session does. */
  recall(body: RecallText, options: CallOptions = {}): Promise<Answer<RecallResult>> {
    return this.call("POST", `/v1/recall`, options, { body });
  }

  /** List the changes of a space, newest first. */
  listCommits(options: { limit?: number } & CallOptions = {}): Promise<Answer<CommitPage>> {
    return this.call("GET", `/v1/history`, options, { query: { limit: options.limit } });
  }

  /** Show what one commit changed. */
  getCommit(commit: string, options: CallOptions = {}): Promise<Answer<CommitDiff>> {
    return this.call("GET", `/v1/history/${encodeURIComponent(commit)}`, options);
  }

  /** List the changes of one memory, newest first. */
  listCommitsOfMemory(file: string, options: { limit?: number } & CallOptions = {}): Promise<Answer<CommitPage>> {
    return this.call("GET", `/v1/memories/${encodeURIComponent(file)}/history`, options, { query: { limit: options.limit } });
  }

  /** Show who wrote a memory, when and why, and the words it came from. */
  getOrigin(file: string, options: CallOptions = {}): Promise<Answer<MemoryOrigin>> {
    return this.call("GET", `/v1/memories/${encodeURIComponent(file)}/why`, options);
  }

  /** Undo a change; later changes stay. */
  undo(body: UndoCommit, options: WriteOptions = {}): Promise<Answer<Undone>> {
    return this.call("POST", `/v1/undo`, options, { body, writes: true });
  }

  /** List proposed and unverified memories. */
  listProposals(options: CallOptions = {}): Promise<Answer<ReviewPage>> {
    return this.call("GET", `/v1/review`, options);
  }

  /** Accept or drop a proposal, confirm or forget an unverified memory. */
  decideProposal(body: ReviewDecision, options: WriteOptions = {}): Promise<Answer<Reviewed>> {
    return this.call("POST", `/v1/review`, options, { body, writes: true });
  }

  /** List sessions, newest first; of a project, or of all in the space `user`. */
  listSessions(options: { limit?: number; cursor?: string } & CallOptions = {}): Promise<Answer<SessionPage>> {
    return this.call("GET", `/v1/sessions`, options, { query: { limit: options.limit, cursor: options.cursor } });
  }

  /** Find lines of session logs. */
  searchSessions(body: SessionQuery, options: CallOptions = {}): Promise<Answer<SearchHits>> {
    return this.call("POST", `/v1/sessions/search`, options, { body });
  }

  /** Show what the model would see if a session continued. */
  getSession(id: string, options: CallOptions = {}): Promise<Answer<SessionWhole>> {
    return this.call("GET", `/v1/sessions/${encodeURIComponent(id)}`, options);
  }

  /** Show what the model saw at the n-th request, and its reply. */
  getRequest(id: string, n: number, options: CallOptions = {}): Promise<Answer<SessionRequest>> {
    return this.call("GET", `/v1/sessions/${encodeURIComponent(id)}/requests/${encodeURIComponent(n)}`, options);
  }

  /** List the requests of a session: tokens, price, cache, and what layers did. */
  listRequests(id: string, options: CallOptions = {}): Promise<Answer<RequestList>> {
    return this.call("GET", `/v1/sessions/${encodeURIComponent(id)}/requests`, options);
  }

  /** List the blocks of a request, what layers did to them, and what has changed. */
  listBlocks(id: string, n: number, options: { from?: number; limit?: number } & CallOptions = {}): Promise<Answer<RequestBlocks>> {
    return this.call("GET", `/v1/sessions/${encodeURIComponent(id)}/requests/${encodeURIComponent(n)}/blocks`, options, { query: { from: options.from, limit: options.limit } });
  }

  /** List the versions of all files, for `nacre memory sync`. */
  syncState(options: CallOptions = {}): Promise<Answer<SyncState>> {
    return this.call("GET", `/v1/sync`, options);
  }

  /** Write files whole if nothing has changed since, for `nacre memory sync`. */
  syncWrite(body: SyncWrite, options: WriteOptions = {}): Promise<Answer<SyncHead>> {
    return this.call("POST", `/v1/sync`, options, { body, writes: true });
  }

  /** Read files whole, for `nacre memory sync`. */
  syncRead(body: SyncRead, options: CallOptions = {}): Promise<Answer<SyncTexts>> {
    return this.call("POST", `/v1/sync/read`, options, { body });
  }

  /** List the spaces that the key may use. */
  listSpaces(options: CallOptions = {}): Promise<Answer<SpaceNames>> {
    return this.call("GET", `/v1/spaces`, options);
  }

  /** List writes, newest first. */
  listAuditLog(options: { limit?: number; cursor?: string } & CallOptions = {}): Promise<Answer<AuditPage>> {
    return this.call("GET", `/v1/audit-log`, options, { query: { limit: options.limit, cursor: options.cursor } });
  }

  /** Summarise tokens, cost, cache hits and memories by day. */
  getUsage(options: { days?: number } & CallOptions = {}): Promise<Answer<Usage>> {
    return this.call("GET", `/v1/usage`, options, { query: { days: options.days } });
  }

  /** List background jobs, newest first. */
  listJobs(options: { status?: "" | "queued" | "running" | "completed" | "failed" } & CallOptions = {}): Promise<Answer<JobList>> {
    return this.call("GET", `/v1/jobs`, options, { query: { status: options.status } });
  }

  /** Consolidate (`dream`) or index a space, or extract memories from a conversation. */
  startJob(body: JobRequest, options: WriteOptions = {}): Promise<Answer<JobEntry>> {
    return this.call("POST", `/v1/jobs`, options, { body, writes: true });
  }

  /** List agents that run or ended within a day, and teams. */
  listAgents(options: CallOptions = {}): Promise<Answer<AgentsAndTeams>> {
    return this.call("GET", `/v1/agents`, options);
  }

  /** Write to an agent, a session or a team. */
  sendMail(body: MailText, options: WriteOptions = {}): Promise<Answer<MailSent>> {
    return this.call("POST", `/v1/mail`, options, { body, writes: true });
  }
}
