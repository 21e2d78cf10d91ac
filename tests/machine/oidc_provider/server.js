// A provider of identities for tests: the certified library `oidc-provider`, with its own login page, which takes any password.
//
// It reads one JSON object a line from its input: {"clients": [...]} or {"accounts": {...}} replaces all of them. It prints one JSON
// object a line: {"url": ...} when it is ready, {"done": true} after each line, and {"logout": ..., "to": ...} with each logout token
// that it would send.
import http from "node:http";
import readline from "node:readline";

const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { default: Provider } = await import(process.env.OIDC_PROVIDER_LIBRARY);

let accounts = {};
let clients = [];
const { default: Memory } = await import(process.env.OIDC_PROVIDER_LIBRARY.replace("lib/index.js", "lib/adapters/memory_adapter.js"));

// Keeps everything in memory as the library does, except clients, which change while it runs.
class Stored extends Memory {
  async find(id) {
    return this.model === "Client" ? clients.find((each) => each.client_id === id) : super.find(id);
  }
}

const server = http.createServer();
await new Promise((resolve) => server.listen(Number(process.env.OIDC_PROVIDER_PORT ?? 0), "127.0.0.1", resolve));
const url = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(url, {
  adapter: Stored,
  claims: { openid: ["sub"], profile: ["preferred_username", "email", "groups", "hd", "department", "api_token", "_claim_names"] },
  scopes: ["openid", "offline_access", "profile"],
  conformIdTokenClaims: false,
  findAccount: (_, sub) => accounts[sub] && {
    accountId: sub,
    claims: () => ({ ...accounts[sub], sub }),
  },
  features: { backchannelLogout: { enabled: true }, devInteractions: { enabled: true } },
  pkce: { required: () => true },
  issueRefreshToken: async (_, client) => client.grantTypeAllowed("refresh_token"),
  rotateRefreshToken: true,
  ttl: { Interaction: 600, Session: 3600, Grant: 3600, AccessToken: 600, IdToken: 600, RefreshToken: 3600 },
  cookies: { keys: ["one key for tests"] },
  // Everybody has consented, as with an application that an administrator has approved.
  loadExistingGrant: async (ctx) => {
    const id = ctx.oidc.session.grantIdFor(ctx.oidc.client.clientId);
    const found = id && (await ctx.oidc.provider.Grant.find(id));
    if (found) return found;
    const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
    grant.addOIDCScope("openid profile offline_access");
    await grant.save();
    return grant;
  },
  fetch: async (target, options) => {
    say({ to: String(target), logout: new URLSearchParams(String(options.body)).get("logout_token") });
    return new Response("", { status: 200 });
  },
});
provider.on("server_error", (_, error) => process.stderr.write(String(error.stack) + "\n"));
server.on("request", provider.callback());
say({ url });
for await (const line of lines) {
  const said = JSON.parse(line);
  accounts = said.accounts ?? accounts;
  clients = said.clients ?? clients;
  say({ done: true });
}
process.exit(0);
