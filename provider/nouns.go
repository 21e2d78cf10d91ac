package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	pageSize       = "200"
	removalTimeout = 10 * time.Minute
	removalPause   = time.Second
	// hidden is what the server shows instead of a value that looks like a secret.
	hidden = "***"
)

var nouns = []noun{group, module, runner, assignment, serviceAccount, role, cloudIdentity, variable, schedule}

var group = noun{
	name:        "group",
	description: "A group of the tree: what is set for it applies to the modules in it and below it.",
	collection:  "/groups",
	fields:      groupFields,
}

var module = noun{
	name: "module",
	description: "A module: one root module of OpenTofu or Terraform, or one program of Pulumi, with its state. Another `path` moves it, " +
		"with all that it has. What its configuration is given is set by `terracrew_variable`. A module that manages resources is " +
		"deleted only after a DESTROY job.",
	collection: "/modules",
	fields:     moduleFields,
	movable:    "path",
	move: func(ctx context.Context, c *client, id, to string) error {
		_, err := c.call(ctx, http.MethodPost, "/modules/"+id+"/move", map[string]any{"path": to})
		return err
	},
	find: func(ctx context.Context, c *client, stored values) (map[string]any, error) {
		found, err := c.call(ctx, http.MethodGet, "/modules/"+url.PathEscape(stored.text("id")), nil)
		source, _ := found["source"].(map[string]any)
		before, _ := toJSON(stored["source"]).(map[string]any)
		registry, _ := before["registry"].(map[string]any)
		// The server adds the host of the engine's registry to an address that has none.
		if given, _ := registry["address"].(string); given != "" && strings.HasSuffix(fmt.Sprint(source["address"]), "/"+given) {
			source["address"] = given
		}
		return found, err
	},
}

var runner = noun{
	name: "runner",
	description: "A self-hosted runner. Its processes authenticate as its service account, or with a token that `terracrew runner " +
		"reregister` shows; no token is in a state. When it is destroyed, it drains, and that waits for its jobs.",
	collection: "/runners",
	fields:     runnerFields,
	create: func(ctx context.Context, c *client, body map[string]any) (map[string]any, error) {
		body["assign"] = body["is_assigned_to_all_modules"]
		delete(body, "is_assigned_to_all_modules")
		return c.call(ctx, http.MethodPost, "/runners", body)
	},
	find: func(ctx context.Context, c *client, stored values) (map[string]any, error) {
		found, err := c.call(ctx, http.MethodGet, "/runners/"+url.PathEscape(stored.text("id")), nil)
		id, ok := found["service_account_id"].(string)
		if given := stored.text("service_account"); !ok || given == "" || given == id {
			return found, err
		}
		account, err := c.call(ctx, http.MethodGet, "/service-accounts/"+id, nil)
		found["service_account_path"] = strings.Trim(fmt.Sprintf("%s/%s", account["group"], account["name"]), "/")
		return found, err
	},
	remove: func(ctx context.Context, c *client, stored values) error {
		place := "/runners/" + url.PathEscape(stored.text("id"))
		answer, err := c.call(ctx, http.MethodDelete, place, nil)
		for end := time.Now().Add(removalTimeout); err == nil && answer["is_removed"] != true; {
			if time.Now().After(end) {
				return fmt.Errorf("it drains, and still has jobs after %s: it disappears when they have ended", removalTimeout)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(removalPause):
			}
			_, err = c.call(ctx, http.MethodGet, place, nil)
		}
		return err
	},
}

var assignment = noun{
	name:        "assignment",
	description: "Lets a group, with all modules in it and below it, or a module use a runner.",
	fields:      assignmentFields,
	key:         []string{"runner", "place"},
	create: func(ctx context.Context, c *client, body map[string]any) (map[string]any, error) {
		place := "/runners/" + url.PathEscape(body["runner"].(string)) + "/assignments"
		return c.call(ctx, http.MethodPost, place, map[string]any{"place": body["place"]})
	},
	find: func(ctx context.Context, c *client, stored values) (map[string]any, error) {
		place := strings.Trim(stored.text("place"), "/")
		return c.search(ctx, "/runners/"+url.PathEscape(stored.text("runner"))+"/assignments", url.Values{},
			func(item map[string]any) bool { return item["path"] == place || item["place_id"] == place })
	},
	remove: func(ctx context.Context, c *client, stored values) error {
		place := "/runners/" + url.PathEscape(stored.text("runner")) + "/assignments"
		_, err := c.call(ctx, http.MethodDelete, place, map[string]any{"place": stored.text("place")})
		return err
	},
}

var serviceAccount = noun{
	name:        "service_account",
	description: "An account for programs. What it may do is given by `terracrew_role`.",
	collection:  "/service-accounts",
	fields:      serviceAccountFields,
}

var role = noun{
	name: "role",
	description: "Lets a user or a service account do something at a group, with everything below it, or at a module. A role that has " +
		"expired is given again by the next apply.",
	collection: "/roles",
	fields:     roleFields,
	find: func(ctx context.Context, c *client, stored values) (map[string]any, error) {
		query := url.Values{"limit": {pageSize}}
		if principal := stored.text("principal"); principal != "" {
			query.Set("principal", principal)
		}
		return c.search(ctx, "/roles", query, func(item map[string]any) bool { return item["id"] == stored.text("id") })
	},
}

var cloudIdentity = noun{
	name:        "cloud_identity",
	description: "A way into a cloud account in which runners are started. It contains no key.",
	collection:  "/cloud-identities",
	fields:      cloudIdentityFields,
}

var variable = noun{
	name: "variable",
	description: "What the jobs of a module, or of all modules of a group, are given: a variable of the configuration, an environment " +
		"variable or a file. It has exactly one of `value`, `secret`, `output` and `definition`.",
	collection: "/inputs",
	fields: append(variableFields, field{Name: "secret_version", Kind: integer, Local: true,
		Description: "Another number sends `secret` again, which is in no state and can therefore not be compared."}),
	key:      []string{"place", "target", "name"},
	replaces: true,
	create: func(ctx context.Context, c *client, body map[string]any) (map[string]any, error) {
		return c.call(ctx, http.MethodPost, "/inputs", body)
	},
	find: func(ctx context.Context, c *client, stored values) (map[string]any, error) {
		query := url.Values{"place": {stored.text("place")}, "inherited": {"false"}, "limit": {pageSize}}
		found, err := c.search(ctx, "/inputs", query, func(item map[string]any) bool {
			return item["name"] == stored.text("name") && item["target"] == stored.text("target")
		})
		if found == nil || err != nil {
			return nil, err
		}
		if isSame(found["version"], toJSON(stored["version"])) {
			return nil, errUnchanged // the server may not show its value
		}
		if shown, _ := json.Marshal(found["value"]); strings.Contains(string(shown), hidden) {
			found["value"] = nil
		}
		if found["kind"] == "output" {
			found["output"] = map[string]any{"module": found["source_module"], "output": found["source_output"]}
		}
		return found, nil
	},
	remove: func(ctx context.Context, c *client, stored values) error {
		query := url.Values{"place": {stored.text("place")}, "target": {stored.text("target")}, "name": {stored.text("name")}}
		_, err := c.call(ctx, http.MethodDelete, "/inputs?"+query.Encode(), nil)
		return err
	},
}

var schedule = noun{
	name:        "schedule",
	description: "Starts jobs or checks for drift at chosen times, with the permissions of who has applied it last.",
	collection:  "/schedules",
	fields:      scheduleFields,
}
