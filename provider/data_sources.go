package main

import (
	"context"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// lookup is a data source: what the server has at a path.
type lookup struct {
	name        string
	description string
	// read returns the members of the data source, all of which are attributes that the server makes.
	read       func(ctx context.Context, c *client, path string) (map[string]any, error)
	attributes map[string]schema.Attribute
	client     *client
}

var lookups = []lookup{
	{
		name:        "group",
		description: "A group that exists.",
		read: func(ctx context.Context, c *client, path string) (map[string]any, error) {
			return c.call(ctx, http.MethodGet, group.item(path), nil)
		},
	},
	{
		name:        "module",
		description: "A module that exists, with the outputs of its last job that read them.",
		read: func(ctx context.Context, c *client, path string) (map[string]any, error) {
			found, err := c.call(ctx, http.MethodGet, module.item(path), nil)
			if err != nil {
				return nil, err
			}
			answer, err := c.call(ctx, http.MethodGet, module.item(path)+"/outputs", nil)
			if err != nil {
				return nil, err
			}
			outputs, all := map[string]any{}, answer["outputs"].(map[string]any)
			for name, each := range all {
				if output := each.(map[string]any); output["sensitive"] != true {
					outputs[name] = output["value"]
				}
			}
			found["outputs"] = outputs
			return found, nil
		},
		attributes: map[string]schema.Attribute{
			"outputs": schema.DynamicAttribute{Computed: true, MarkdownDescription: "Its outputs by their names, except sensitive ones."},
		},
	},
}

func (l *lookup) Metadata(_ context.Context, request datasource.MetadataRequest, response *datasource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_" + l.name
}

func (l *lookup) Schema(_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse) {
	all := map[string]schema.Attribute{
		"path":        schema.StringAttribute{Required: true, MarkdownDescription: "Its path."},
		"id":          schema.StringAttribute{Computed: true, MarkdownDescription: "Its id."},
		"description": schema.StringAttribute{Computed: true, MarkdownDescription: "What it is for."},
	}
	for name, each := range l.attributes {
		all[name] = each
	}
	response.Schema = schema.Schema{MarkdownDescription: l.description, Attributes: all}
}

func (l *lookup) Configure(_ context.Context, request datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	l.client, _ = request.ProviderData.(*client)
}

func (l *lookup) Read(ctx context.Context, request datasource.ReadRequest, response *datasource.ReadResponse) {
	given := valuesOf(request.Config.Raw)
	answer, err := l.read(ctx, l.client, given.text("path"))
	if err != nil {
		response.Diagnostics.AddAttributeError(path.Root("path"), "The "+l.name+" was not read", err.Error())
		return
	}
	found := values{}
	for name := range given {
		found[name] = inferred(answer[name])
	}
	found["path"] = given["path"]
	response.State.Raw = tftypes.NewValue(request.Config.Raw.Type(), map[string]tftypes.Value(found))
}
