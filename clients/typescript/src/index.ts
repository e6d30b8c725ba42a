export * from "./generated.js";
export { type Answer, type CallOptions, NacreError, type NacreOptions, type WriteOptions } from "./http.js";
