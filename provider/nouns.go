package main

import (
	"context"
	"net/http"
)

var nouns = []noun{group, module}

var group = noun{
	name:        "group",
	title:       "group",
	description: "A group of the tree: what is set for it applies to the modules in it and below it.",
	collection:  "/groups",
	fields:      groupFields,
}

var module = noun{
	name:        "module",
	title:       "module",
	description: "A module: a root module or a Pulumi program, with one state. Another `path` moves it, with all that it has.",
	collection:  "/modules",
	fields:      moduleFields,
	movable:     "path",
	move: func(ctx context.Context, c *client, id, to string) error {
		_, err := c.call(ctx, http.MethodPost, "/modules/"+id+"/move", map[string]any{"path": to})
		return err
	},
}
